"""The addresses of all pages."""

from barnabas.console.application import Routes


def all_routes() -> Routes:
    """Modules of pages are imported when they are first asked for, so that the console starts
    soon."""
    routes = Routes(__package__)
    routes.add("/", "overview.overview")
    routes.add("/topics", "topics.topics")
    routes.add("/topics/*", "topics.topic")
    routes.add("/topics/*/config", "topics.config")
    routes.add("/topics/*/log", "segments.segments")
    routes.add("/topics/*/records", "records.records")
    routes.add("/topics/*/scan", "records.scan_stream")
    routes.add("/topics/*/tail", "records.tail_stream")
    routes.add("/topics/*/export", "records.download")
    routes.add("/topics/*/produce", "producing.produce")
    routes.add("/topics/*/delete", "changing.delete_topic")
    routes.add("/topics/*/*/*", "record.record")
    routes.add("/topics/*/*/*/value", "record.raw_value")
    routes.add("/groups", "groups.groups")
    routes.add("/groups/*", "groups.group")
    routes.add("/groups/*/seek", "changing.seek")
    routes.add("/groups/*/undo", "changing.undo")
    routes.add("/dlq", "letters.dead_letters")
    routes.add("/dlq/*", "letters.letters_of")
    routes.add("/dlq/*/redrive", "letters.redrive")
    routes.add("/delays", "delays.delays")
    routes.add("/delays/*", "delays.delayed_records")
    routes.add("/pipelines", "pipelines.pipelines")
    routes.add("/pipelines/*", "pipelines.pipeline")
    routes.add("/sql", "sql.sql")
    routes.add("/sql/rows", "sql.sql_rows")
    routes.add("/brokers", "brokers.brokers")
    routes.add("/clients", "clients.clients")
    routes.add("/events", "brokers.events")
    routes.add("/transactions", "brokers.transactions")
    return routes
