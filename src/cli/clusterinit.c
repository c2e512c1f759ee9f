/* sherd cluster init: how the first nodes of a new cluster are started. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/cliargs.h"
#include "cli/cluster.h"
#include "cli/subcommand.h"
#include "io/dial.h"
#include "io/wholefile.h"
#include "server/clusterconf.h"

enum { USUAL_PORT = 6379 };

/* "host", "host:port", "[v6]:port". */
static bool split_host(const char *word, char host[DIAL_HOST_MAX], int64_t *port)
{
    const char *rest;
    *port = USUAL_PORT;
    if (!strchr(word, ':')) return snprintf(host, DIAL_HOST_MAX, "%s", word) < DIAL_HOST_MAX && *host;
    if (!dial_split(word, host, &rest) || (word[0] != '[' && strchr(host, ':'))) return false;
    return num_parse_i64(slice_str(rest), port) && *port > 0 && *port <= UINT16_MAX - 10000;
}

static void add_address(struct buf *out, const char *host, int64_t port)
{
    bool v6 = strchr(host, ':') != NULL;
    buf_printf(out, v6 ? "[%s]:%" PRId64 : "%s:%" PRId64, host, port);
}

bool clusterinit_peers(const struct clusterinit *c, struct buf *out, uint32_t *bad)
{
    char host[DIAL_HOST_MAX], other[DIAL_HOST_MAX];
    int64_t port, other_port;
    for (*bad = 0; *bad < c->n; ++*bad) {
        if (!split_host(c->hosts[*bad], host, &port)) return false;
        for (uint32_t k = 0; k < *bad; k++) {
            if (split_host(c->hosts[k], other, &other_port) && strcmp(host, other) == 0 && port == other_port) return false;
        }
        buf_printf(out, "%s%u=", *bad ? "," : "", *bad + 1);
        add_address(out, host, clusterconf_port(0, port));
        buf_add_byte(out, '/');
        add_address(out, host, port);
    }
    return true;
}

void clusterinit_command(const struct clusterinit *c, uint32_t i, struct slice peers, struct buf *out)
{
    char host[DIAL_HOST_MAX];
    int64_t port;
    split_host(c->hosts[i], host, &port);
    buf_printf(out, "sherd serve --cluster --node-id %u --bind %s --port %" PRId64 " --data data-%u", i + 1, host, port, i + 1);
    if (c->shards) buf_printf(out, " --cluster-shards %u", c->shards);
    if (c->replication) buf_printf(out, " --cluster-replication %u", c->replication);
    buf_printf(out, " --peers \"%.*s\"\n", (int)peers.n, peers.p);
}

void clusterinit_toml(const struct clusterinit *c, uint32_t i, struct slice peers, struct buf *out)
{
    char host[DIAL_HOST_MAX];
    int64_t port;
    split_host(c->hosts[i], host, &port);
    buf_printf(out, "# Node %u of a cluster of %u: sherd serve --config node-%u.toml\nbind = \"%s\"\nport = %" PRId64 "\ndata = \"data-%u\"\n# requirepass = \"the same on each node; needed beyond one machine\"\n\n[cluster]\nenabled = true\n# secret_file = \"a file with the same secret on each node; needed beyond one machine\"\nnode_id = %u\n", i + 1, c->n, i + 1,
               host, port, i + 1, i + 1);
    if (c->shards) buf_printf(out, "shards = %u\n", c->shards);
    if (c->replication) buf_printf(out, "replication = %u\n", c->replication);
    buf_printf(out, "peers = \"%.*s\"\n", (int)peers.n, peers.p);
}

/* ---- the command line */

struct line {
    struct clusterinit c;
    const char *write; /* folder; NULL: command lines are printed */
};

static const struct cliargs_option options[] = {
    {"--write", CLIARGS_WORD, offsetof(struct line, write), "DIR", "writes node-1.toml, node-2.toml ... there, and prints no command lines", NULL, 0, 0},
    {"--shards", CLIARGS_U32, offsetof(struct line, c.shards), "N", "Raft groups that the keys are spread over", NULL, 1024, 0},
    {"--replication", CLIARGS_U32, offsetof(struct line, c.replication), "N", "replicas of each", NULL, 7, 0},
};
static const struct cliargs_group groups[] = {CLIARGS_GROUP(options, 0)};
static const struct cliargs args = {.command = "cluster init", .help = "sherd cluster init --help", .groups = groups, .n_groups = 1};

static int show_help(void)
{
    puts("usage: sherd cluster init HOST[:PORT]... [options]\n"
         "\n"
         "Prints how each of the first nodes of a new cluster is started: one for each HOST, which is how the others and clients reach it. Three\n"
         "survive the loss of one. The port is that of clients, 6379 if there is none; nodes talk on the port 10000 above it.\n"
         "Beyond this machine every node needs the same password, --requirepass, and the same secret, --cluster-secret-file. Nodes that come later join: sherd cluster join HOST:PORT.\n");
    cliargs_help(&args, stdout);
    return fflush(stdout) == 0 ? EXIT_WELL : EXIT_TROUBLE;
}

static bool write_files(const struct line *l, struct slice peers)
{
    for (uint32_t i = 0; i < l->c.n; i++) {
        char path[PATH_MAX];
        struct buf text = {0};
        clusterinit_toml(&l->c, i, peers, &text);
        int rc = snprintf(path, sizeof path, "%s/node-%u.toml", l->write, i + 1) < (int)sizeof path ? wholefile_replace(path, buf_slice(&text), 0600) : -ENAMETOOLONG;
        buf_fini(&text);
        if (rc) {
            fprintf(stderr, "sherd: %s: %s\n", path, strerror(-rc));
            return false;
        }
        printf("%s\n", path);
    }
    return true;
}

static bool print_commands(const struct line *l, struct slice peers)
{
    struct buf text = {0};
    for (uint32_t i = 0; i < l->c.n; i++) clusterinit_command(&l->c, i, peers, &text);
    bool written = fwrite(text.p, 1, text.len, stdout) == text.len && fflush(stdout) == 0;
    buf_fini(&text);
    return written;
}

/* Whether nodes would take the list: of two on one machine, for instance, one may have the port of the other's clients for its nodes. */
static bool is_good(struct slice peers)
{
    struct clusterconf_peers p;
    struct buf text = {0}, why = {0};
    buf_add_slice(&text, peers);
    buf_add_byte(&text, '\0');
    bool good = clusterconf_peers(&p, text.p, &why) == 0;
    buf_add_byte(&why, '\0');
    if (!good) cliargs_refuse(&args, why.p, "");
    clusterconf_fini(&p);
    buf_fini(&text);
    buf_fini(&why);
    return good;
}

static int run(struct line *l)
{
    struct buf peers = {0};
    uint32_t bad;
    int code = EXIT_USAGE;
    if (!clusterinit_peers(&l->c, &peers, &bad)) cliargs_refuse(&args, "neither HOST nor HOST:PORT, or there twice: ", l->c.hosts[bad]);
    else if (is_good(buf_slice(&peers))) code = (l->write ? write_files(l, buf_slice(&peers)) : print_commands(l, buf_slice(&peers))) ? EXIT_WELL : EXIT_TROUBLE;
    buf_fini(&peers);
    return code;
}

int clusterinit_run(int argc, char **argv)
{
    struct line l = {0};
    size_t n;
    if (cliargs_asks_help(argc, argv)) return show_help();
    const char **words = mem_alloc(((size_t)argc + 1) * sizeof *words);
    int code = EXIT_USAGE;
    bool good = cliargs_read(&args, &l, argc, argv, words, &n);
    if (good && n == 0) good = cliargs_refuse(&args, "a HOST for each node is needed", "");
    if (good && n > CLUSTERINIT_NODES_MAX) good = cliargs_refuse(&args, "a cluster begins with at most 16 nodes", "");
    if (good) {
        l.c.n = (uint32_t)n;
        memcpy(l.c.hosts, words, n * sizeof *words);
        code = run(&l);
    }
    mem_free(words);
    return code;
}
