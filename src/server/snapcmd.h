/* SNAPSHOT.* commands and what INFO tells of publishing. */
#pragma once

struct buf;
struct conn;
struct server;

void snapcmd_info(struct server *s, struct buf *out); /* lines of INFO */
/* The connection's export, if it has one, is not wanted any more. On its worker, or while it is away by whoever has it. */
void snapcmd_end_export(struct conn *c);
