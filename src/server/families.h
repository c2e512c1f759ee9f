/* The command families of src/server/: those that need the server or the connection. */
#pragma once
#include "command/command.h"

extern const struct command_family transactions_family; /* transactions.c: MULTI EXEC DISCARD WATCH UNWATCH */
extern const struct command_family subscribe_family;    /* subscribe.c: SUBSCRIBE ... PUBLISH PUBSUB */
extern const struct command_family connection_family;   /* connection.c: PING ECHO SELECT AUTH HELLO QUIT RESET */
extern const struct command_family clients_family;      /* clients.c: CLIENT */
extern const struct command_family configs_family;      /* configs.c: CONFIG */
extern const struct command_family catalog_family;      /* catalog.c: COMMAND */
extern const struct command_family info_family;         /* info.c: INFO */
extern const struct command_family slowlog_family;      /* slowlog.c: SLOWLOG */
extern const struct command_family latency_family;      /* latency.c: LATENCY */
extern const struct command_family memory_family;       /* memory.c: MEMORY */
extern const struct command_family debug_family;        /* debug.c: DEBUG */
extern const struct command_family stats_family;        /* stats.c: STATS.HOTKEYS STATS.LATENCY STATS.MEMORY STATS.SHARDS */
extern const struct command_family admin_family;        /* admin.c: SHUTDOWN TIME ROLE WAIT ... */
extern const struct command_family saves_family;        /* saves.c: SAVE BGSAVE BGREWRITEAOF LASTSAVE */
extern const struct command_family snapreads_family;    /* snapreads.c: SNAPSHOT.GET SNAPSHOT.SCAN */
extern const struct command_family snapcmd_family;      /* snapcmd.c: SNAPSHOT.PUBLISH SNAPSHOT.STATUS SNAPSHOT.INFO ... */
extern const struct command_family durability_family;   /* durability.c: HEALTH */
extern const struct command_family spacecmd_family;     /* spacecmd.c: SPACE.SET SPACE.INFO RANGE.SPLIT ... */
extern const struct command_family clustercmd_family;   /* clustercmd.c: CLUSTER READONLY READWRITE */
extern const struct command_family rangelock_family;    /* rangelock.c: RANGE.LOCK RANGE.EXTEND RANGE.UNLOCK RANGE.LOCKS */
extern const struct command_family rangeexec_family;    /* rangeexec.c: RANGE.EXEC */
extern const struct command_family rangewhy_family;     /* rangewhy.c: RANGE.EXPLAIN */
extern const struct command_family rangemap_family;     /* rangemap.c: RANGE.MAP */
extern const struct command_family rangefigures_family; /* rangefigures.c: range.figures of a group */
extern const struct command_family rangecmd_family;     /* rangecmd.c: RANGE.GET RANGE.COUNT RANGE.DEL BUCKET.GET */
