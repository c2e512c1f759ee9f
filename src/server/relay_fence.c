/* What a request that the fence refused is told. To another node: u64 version of the map here, then the text. */
#include "base/le.h"
#include "route/keyspace.h"
#include "server/relay_parts.h"

bool relay_fence_text(const struct relay_front *rf, const struct command *cmd, const struct slice *argv, uint32_t argc, struct buf *out)
{
    const struct engine *e = relay_engine(rf);
    const struct space_map *m = route_map(&e->route);
    struct slice name, start, end;
    uint32_t at;
    cmd = command_unwrap(e->commands, cmd, &argv, &argc);
    if (!cmd || !m) return false;
    if (cmd->class == CLASS_SPACE) {
        if (!cmd->extent(argv, argc, &name, &start, &end)) return false;
        spaces_text_place(out, m, name, start);
        return true;
    }
    if (command_keys(cmd, argv, argc, &at, 1) < 1) return false;
    spaces_text_place(out, m, space_of(argv[at]), argv[at]);
    return true;
}

void relay_fence_refuse(const struct relay_front *rf, const struct command *cmd, const struct slice *argv, uint32_t argc, struct buf *out)
{
    le_add_u64(out, relay_map_version(rf)); /* before the text is made: if the map changes meanwhile it waits for too little, and is refused again */
    relay_fence_text(rf, cmd, argv, argc, out);
}

bool relay_fence_read(struct slice reply, uint64_t *map, struct slice *text)
{
    if (reply.n < 8) return false;
    *map = le_u64(reply.p);
    *text = slice_of(reply.p + 8, reply.n - 8);
    return true;
}
