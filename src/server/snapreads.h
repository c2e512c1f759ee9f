/* The commands of a server that serves a snapshot: those of a live one, but reads of strings read the snapshot, and nothing writes. */
#pragma once
#include <stdbool.h>

struct command;
struct command_table;
struct reply;

struct command_table *snapreads_commands(void);
/* Answers the error if a command has no place on such a server: it would write, or look into shards, which are empty. */
bool snapreads_refuse(const struct command *cmd, struct reply *out);
