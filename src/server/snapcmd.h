/* SNAPSHOT.* commands and what INFO tells of publishing. */
#pragma once

struct buf;
struct server;

void snapcmd_info(struct server *s, struct buf *out); /* lines of INFO */
