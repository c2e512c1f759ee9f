/* sherd cluster: starting, watching and changing a cluster. What changes one is asked of any of its nodes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/cliargs.h"
#include "cli/cluster.h"
#include "cli/subcommand.h"
#include "server/clusterask.h"

enum { WORDS_MAX = 3, ASK_TIMEOUT_S = 30, LOOK_AGAIN_S = 1 };

/* Verbs that are one question to a node, which has the same word for it. */
static const struct verb {
    const char *name;
    uint32_t words, optional; /* so many of the words need not be there, the last */
    const char *usage, *help;
} verbs[] = {
    {"status", 0, 0, "", "nodes, groups and what is under way"},
    {"leave", 1, 0, "NODE", "moves its replicas away, then it is no node any more and ends; --wait until then"},
    {"return", 1, 0, "NODE", "calls that off"},
    {"remove", 1, 0, "NODE", "it is dead for good: its replicas are made anew elsewhere"},
    {"move", 3, 0, "GROUP FROM TO", "moves a replica from node to node; prints the number of the operation, which status shows"},
    {"split", 2, 1, "GROUP [HASH]", "lets the upper half of its interval of the hash, or what is from HASH on, go to a new group; prints its number"},
    {"lead", 2, 0, "GROUP NODE", "hands a group's leadership to a node that has a replica"},
    {"set", 2, 0, "SETTING NUMBER", "changes a setting of the cluster: replication, dead-after-ms, moves-per-node"},
};

struct line {
    const char *server;
    struct cliargs_login login;
    bool wait;
};

static const struct cliargs_option options[] = {
    {"--server", CLIARGS_WORD, offsetof(struct line, server), "HOST:PORT", "any node, at its clients' port; else 127.0.0.1:6379", NULL, 0, 0},
    {"--wait", CLIARGS_FLAG, offsetof(struct line, wait), NULL, "leave: until it has left", NULL, 0, 0},
};
static const struct cliargs_group groups[] = {CLIARGS_GROUP(options, 0), {cliargs_login, CLIARGS_LOGIN, offsetof(struct line, login)}};
static const struct cliargs args = {.command = "cluster", .help = "sherd cluster --help", .groups = groups, .n_groups = 2};

static int show_help(FILE *to)
{
    fputs("usage: sherd cluster COMMAND [arguments] [options]\n\n", to);
    fprintf(to, "  %-24s %s\n", "demo", "starts three nodes on this machine to try; `sherd cluster demo --help`");
    fprintf(to, "  %-24s %s\n", "init HOST[:PORT]...", "how the first nodes of a new cluster are started; `sherd cluster init --help`");
    fprintf(to, "  %-24s %s\n", "join HOST:PORT[,...]", "starts a node that joins the cluster of that one; takes the options of `sherd serve`");
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        char usage[40];
        snprintf(usage, sizeof usage, "%s %s", verbs[i].name, verbs[i].usage);
        fprintf(to, "  %-24s %s\n", usage, verbs[i].help);
    }
    fputc('\n', to);
    cliargs_help(&args, to);
    fputs("\nExit status: 0 it is done, 1 it could not be done, 2 the command line is wrong.\n", to);
    return fflush(to) == 0 ? EXIT_WELL : EXIT_TROUBLE;
}

/* ---- asking */

static bool ask(const struct line *l, const char *const *words, size_t n, struct buf *answer)
{
    struct slice argv[1 + 1 + WORDS_MAX] = {SLICE("CLUSTER")};
    for (size_t i = 0; i < n; i++) argv[1 + i] = slice_str(words[i]);
    const struct clusterask to = {.address = l->server, .user = l->login.user, .password = cliargs_password(&l->login), .timeout_s = ASK_TIMEOUT_S};
    enum clusterask_result r = clusterask(&to, argv, n + 1, answer);
    if (r == CLUSTERASK_ANSWERED) return true;
    fprintf(stderr, "sherd: %s%s%.*s\n", r == CLUSTERASK_REFUSED ? l->server : "", r == CLUSTERASK_REFUSED ? ": " : "", (int)answer->len, answer->p);
    return false;
}

/* The value of a field of CLUSTER INFO. */
static struct slice field(struct slice info, const char *name)
{
    size_t n = strlen(name);
    const char *at = info.p;
    for (const char *end = info.p + info.n; at && at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t line = newline ? (size_t)(newline - at) : (size_t)(end - at);
        if (line > n && memcmp(at, name, n) == 0 && at[n] == ':') return slice_of(at + n + 1, line - n - 1 - (at[line - 1] == '\r'));
        at = newline ? newline + 1 : NULL;
    }
    return SLICE("?");
}

static void print_summary(struct slice info)
{
    static const char *const names[] = {"cluster_state", "cluster_known_nodes", "cluster_nodes_alive", "cluster_groups", "cluster_groups_led", "cluster_operations"};
    struct slice v[6];
    for (int i = 0; i < 6; i++) v[i] = field(info, names[i]);
#define TEXT(i) (int)v[i].n, v[i].p
    printf("state %.*s: %.*s nodes, %.*s of them heard of; %.*s groups, %.*s of them led; %.*s operations under way\n\n", TEXT(0), TEXT(1), TEXT(2), TEXT(3), TEXT(4), TEXT(5));
#undef TEXT
}

static bool show_status(const struct line *l)
{
    struct buf info = {0}, tables = {0}, page = {0};
    bool good = ask(l, (const char *const[]){"INFO"}, 1, &info) && ask(l, (const char *const[]){"STATUS"}, 1, &tables);
    if (good) {
        clusterpaint(buf_slice(&tables), isatty(STDOUT_FILENO), &page);
        print_summary(buf_slice(&info));
        fwrite(page.p, 1, page.len, stdout);
    }
    buf_fini(&info);
    buf_fini(&tables);
    buf_fini(&page);
    return good;
}

/* A node's name in CLUSTER NODES ends with its number in hexadecimal. */
static bool is_known(struct slice nodes, uint64_t node)
{
    char ending[20];
    snprintf(ending, sizeof ending, "%016" PRIx64 " ", node);
    return memmem(nodes.p, nodes.n, ending, strlen(ending)) != NULL;
}

static bool wait_until_gone(const struct line *l, const char *word)
{
    uint64_t node;
    if (!num_parse_u64(slice_str(word), &node)) return true;
    for (bool known = true; known;) {
        struct buf nodes = {0};
        bool good = ask(l, (const char *const[]){"NODES"}, 1, &nodes);
        known = good && is_known(buf_slice(&nodes), node);
        buf_fini(&nodes);
        if (!good) return false;
        if (known) sleep(LOOK_AGAIN_S);
    }
    puts("gone");
    return true;
}

static bool run_verb(const struct line *l, const char *const *words, size_t n)
{
    if (strcmp(words[0], "status") == 0) return show_status(l);
    struct buf answer = {0};
    bool good = ask(l, words, n, &answer);
    if (good) {
        printf("%.*s\n", (int)answer.len, answer.p);
        fflush(stdout);
    }
    buf_fini(&answer);
    return good && (!l->wait || wait_until_gone(l, words[1]));
}

/* ---- the command line */

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verbs[i].name, name) == 0) return &verbs[i];
    }
    return NULL;
}

static bool check_words(const struct line *l, const char *const *words, size_t n)
{
    const struct verb *v = n ? find_verb(words[0]) : NULL;
    if (!v) return cliargs_refuse(&args, n ? "unknown command " : "a command is needed", n ? words[0] : "");
    if (n - 1 > v->words || n - 1 + v->optional < v->words) return cliargs_refuse(&args, v->words ? "needed is: " : "nothing follows ", v->words ? v->usage : v->name);
    if (l->wait && strcmp(v->name, "leave") != 0) return cliargs_refuse(&args, "--wait is for leave", "");
    return true;
}

static int run_asking(int argc, char **argv)
{
    struct line l = {.server = "127.0.0.1:6379"};
    const char **words = mem_alloc(((size_t)argc + 1) * sizeof *words);
    size_t n;
    int code = EXIT_USAGE;
    if (cliargs_read(&args, &l, argc, argv, words, &n) && check_words(&l, words, n))
        code = run_verb(&l, words, n) && fflush(stdout) == 0 ? EXIT_WELL : EXIT_TROUBLE;
    mem_free(words);
    return code;
}

/* join HOST:PORT OPTIONS is serve --cluster --join HOST:PORT OPTIONS. */
static int run_join(int argc, char **argv)
{
    static char cluster[] = "--cluster", join[] = "--cluster-join";
    if (argc == 0 || argv[0][0] == '-') {
        fputs("sherd: cluster join: HOST:PORT of a node of the cluster is needed; see `sherd cluster --help`\n", stderr);
        return EXIT_USAGE;
    }
    char **all = mem_alloc(((size_t)argc + 3) * sizeof *all);
    all[0] = cluster;
    all[1] = join;
    memcpy(all + 2, argv, (size_t)argc * sizeof *all);
    all[argc + 2] = NULL;
    int code = serve_run(argc + 2, all);
    mem_free(all);
    return code;
}

int cluster_run(int argc, char **argv)
{
    if (argc == 0) {
        show_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[0], "demo") == 0) return clusterdemo_run(argc - 1, argv + 1);
    if (strcmp(argv[0], "init") == 0) return clusterinit_run(argc - 1, argv + 1);
    if (strcmp(argv[0], "join") == 0 && !cliargs_asks_help(argc, argv)) return run_join(argc - 1, argv + 1);
    if (strcmp(argv[0], "help") == 0 || cliargs_asks_help(argc, argv)) return show_help(stdout);
    return run_asking(argc, argv);
}
