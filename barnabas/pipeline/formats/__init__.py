"""Values of records as columns: JSON, Avro, Protobuf, schema registries.

typed: the columns `data` and `error` of typed values
json: JSON values
json_schema: columns from a JSON Schema
avro: Avro values
protobuf: Protobuf values
framed: any framed value as JSON, for people
sql_worker: the process that runs a query over framed values
registry: schemas from a Confluent-style registry
ddl: columns as Spark writes them, checked
"""
