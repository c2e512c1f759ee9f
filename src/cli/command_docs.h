/* The command table as text: `sherd commands` and docs/COMMANDS.md. */
#pragma once
#include "base/buf.h"

struct command_table;

void command_docs_plain(const struct command_table *t, struct buf *out);
void command_docs_markdown(const struct command_table *t, struct buf *out);
