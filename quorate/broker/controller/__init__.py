"""The KRaft controller: it appends metadata records and carries out requests and chores.

The rooms
---------
Each uses those below it, and none above.

  `controller`
    The controller of one node: made of the parts below, activated and deactivated with leadership.
  `administration`, `broker_requests`, `broker_tending`
    From a request to its answer, for administrators and for brokers. The work that no request asks for: to
    fence silent brokers, and to return leaders to their first replicas.
  `performer`
    One operation after the other, in steps of some milliseconds. It owns the tenure.
  `tenure`
    One node's time as the active controller: its image ahead of the committed one, its appends, sessions and
    chores. A controller that loses leadership drops the tenure: no answer was given from it.
  `chores`
    The consequences of records in many partitions, in pieces that any later controller can continue.
  liveness, `state_machines`
    Sessions, ended processes and the progress of brokers. The states of partitions and replicas.
  operations
    Pure functions from an image and a request to records.
  `rpc`, `rpc_codec`
    The requests and answers, and their bytes.

`metadata_log` and `controller_telemetry` are its interfaces to the quorum and to metrics. The image and the
records are `quorate.broker.metadata`.

The life of a request
---------------------
1. `Controller.answer` finds the operation by the type of the request.
2. `Performer.perform` waits for its turn, and has the operation decided from the tenure's image.
3. `Tenure.append` applies the records to that image, encodes them and takes their place in the log, in the
   same step.
4. `Chores.after` begins the chores that each record makes necessary. If the operation depends on them, it is
   decided again when they are done (`Departure`).
5. The answer is given when all records that the image had are committed.
"""
