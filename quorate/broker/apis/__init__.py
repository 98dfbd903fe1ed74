"""The APIs of Kafka that brokers and controllers serve, a module for each family."""
