/* sherd cluster demo: some nodes of one cluster as children of this process, to try things with. */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cliargs.h"
#include "cli/cluster.h"
#include "cli/subcommand.h"
#include "server/clusterask.h"
#include "server/clusterconf.h"

enum { READY_MAX_MS = 60000, LOOK_MS = 100, END_MAX_MS = 15000, WORD_MAX = PATH_MAX + 32, WORDS = 20 };

struct demo {
    uint32_t nodes, port;
    const char *dir; /* NULL: a temporary one, which goes at the end */
    char path[PATH_MAX];
    struct buf peers;
    pid_t pids[CLUSTERINIT_NODES_MAX];
};

static const struct cliargs_option options[] = {
    {"--nodes", CLIARGS_U32, offsetof(struct demo, nodes), "N", "how many; 3", NULL, CLUSTERINIT_NODES_MAX, 0},
    {"--dir", CLIARGS_WORD, offsetof(struct demo, dir), "DIR", "where their data is kept; else it is gone at the end", NULL, 0, 0},
    {"--port", CLIARGS_U32, offsetof(struct demo, port), "PORT", "of the first one's clients, the others' follow; 7001. Nodes talk 10000 above", NULL, 55000, 0},
};
static const struct cliargs_group groups[] = {CLIARGS_GROUP(options, 0)};
static const struct cliargs args = {.command = "cluster demo", .help = "sherd cluster demo --help", .groups = groups, .n_groups = 1};

static int show_help(void)
{
    puts("usage: sherd cluster demo [options]\n\nStarts the nodes of a cluster on this machine, says what to try, and ends them on Ctrl-C.\n");
    cliargs_help(&args, stdout);
    return fflush(stdout) == 0 ? EXIT_WELL : EXIT_TROUBLE;
}

static uint32_t port_of(const struct demo *d, uint32_t i) { return d->port + i; }

/* ---- the folder */

static bool make_dir(struct demo *d)
{
    const char *tmp = getenv("TMPDIR");
    bool fits = d->dir ? snprintf(d->path, sizeof d->path, "%s", d->dir) < PATH_MAX - 64 : snprintf(d->path, sizeof d->path, "%s/sherd-cluster-XXXXXX", tmp && *tmp ? tmp : "/tmp") < PATH_MAX - 64;
    if (!fits) errno = ENAMETOOLONG;
    bool made = fits && (d->dir ? mkdir(d->path, 0700) == 0 || errno == EEXIST : mkdtemp(d->path) != NULL);
    if (!made) fprintf(stderr, "sherd: %s: %s\n", d->path, strerror(errno));
    return made;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) { return remove(path); }

static void remove_dir(const struct demo *d)
{
    if (!d->dir) nftw(d->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- ports */

static bool is_free(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0) return false;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool bound = bind(fd, (const struct sockaddr *)&a, sizeof a) == 0;
    close(fd);
    return bound;
}

/* Another demo on the same ports would answer for ours. */
static bool has_ports(const struct demo *d)
{
    for (uint32_t i = 0; i < 2 * d->nodes; i++) {
        uint16_t port = i < d->nodes ? (uint16_t)port_of(d, i) : clusterconf_port(0, port_of(d, i - d->nodes));
        if (is_free(port)) continue;
        fprintf(stderr, "sherd: port %u is in use; --port chooses others\n", port);
        return false;
    }
    return true;
}

/* ---- the nodes */

/* Of each node: more workers than cores only wait for each other. */
static uint32_t share_of_cores(uint32_t nodes)
{
    cpu_set_t cores;
    uint32_t n = sched_getaffinity(0, sizeof cores, &cores) == 0 ? (uint32_t)CPU_COUNT(&cores) / nodes : 1;
    return n ? n : 1;
}

/* In the child: becomes node i. Ctrl-C is not for it, the parent ends it; and it does not outlive the parent. */
static void become_node(const struct demo *d, uint32_t i)
{
    char data[WORD_MAX], log[WORD_MAX], id[16], port[16], workers[16], peers[2048];
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    snprintf(data, sizeof data, "%s/node-%u", d->path, i + 1);
    snprintf(log, sizeof log, "%s/node-%u.log", d->path, i + 1);
    snprintf(id, sizeof id, "%u", i + 1);
    snprintf(port, sizeof port, "%u", port_of(d, i));
    snprintf(workers, sizeof workers, "%u", share_of_cores(d->nodes));
    snprintf(peers, sizeof peers, "%.*s", (int)d->peers.len, d->peers.p);
    const char *words[WORDS] = {"sherd", "serve", "--cluster", "--node-id", id, "--port", port, "--data", data, "--logfile", log, "--workers", workers, "--peers", peers, NULL};
    execv("/proc/self/exe", (char *const *)(uintptr_t)words);
    fprintf(stderr, "sherd: cannot start a node: %s\n", strerror(errno));
    _exit(EXIT_TROUBLE);
}

static bool start_node(struct demo *d, uint32_t i)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) become_node(d, i);
    if (pid < 0) fprintf(stderr, "sherd: cannot start a node: %s\n", strerror(errno));
    d->pids[i] = pid > 0 ? pid : 0;
    return pid > 0;
}

static void tell_end(const struct demo *d, uint32_t i)
{
    printf("node %u has ended; its log is %s/node-%u.log. It is started again by\n"
           "  sherd serve --cluster --port %u --data %s/node-%u\n",
           i + 1, d->path, i + 1, port_of(d, i), d->path, i + 1);
}

/* Notes those that have ended. Gives how many run. */
static uint32_t reap(struct demo *d, bool tell)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < d->nodes; i++) {
        int status;
        if (!d->pids[i]) continue;
        if (waitpid(d->pids[i], &status, WNOHANG) == 0) {
            running++;
            continue;
        }
        d->pids[i] = 0;
        if (tell) tell_end(d, i);
    }
    fflush(stdout);
    return running;
}

static void pause_ms(unsigned ms) { nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}, NULL); }

static void end_nodes(struct demo *d)
{
    for (uint32_t i = 0; i < d->nodes; i++) {
        if (d->pids[i]) kill(d->pids[i], SIGTERM);
    }
    for (unsigned waited = 0; reap(d, false) && waited < END_MAX_MS; waited += LOOK_MS) pause_ms(LOOK_MS);
    for (uint32_t i = 0; i < d->nodes; i++) {
        if (!d->pids[i]) continue;
        kill(d->pids[i], SIGKILL);
        waitpid(d->pids[i], NULL, 0);
    }
}

/* ---- ready */

static bool is_ready(const struct demo *d, uint32_t i)
{
    char address[32];
    struct buf answer = {0};
    snprintf(address, sizeof address, "127.0.0.1:%u", port_of(d, i));
    const struct clusterask to = {.address = address, .timeout_s = 2};
    const struct slice words[] = {SLICE("CLUSTER"), SLICE("INFO")};
    bool ready = clusterask(&to, words, 2, &answer) == CLUSTERASK_ANSWERED && memmem(answer.p, answer.len, "cluster_state:ok", 16);
    buf_fini(&answer);
    return ready;
}

static bool is_asked_to_end(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM));
}

static bool wait_until_ready(struct demo *d)
{
    int64_t until = clock_unix_ms() + READY_MAX_MS;
    for (uint32_t i = 0; i < d->nodes;) {
        if (reap(d, true) < d->nodes || is_asked_to_end()) return false;
        if (is_ready(d, i)) {
            i++;
            continue;
        }
        if (clock_unix_ms() > until) {
            fprintf(stderr, "sherd: node %u is not ready after %d seconds; its log is %s/node-%u.log\n", i + 1, READY_MAX_MS / 1000, d->path, i + 1);
            return false;
        }
        pause_ms(LOOK_MS);
    }
    return true;
}

static void say_what_to_try(const struct demo *d)
{
    uint32_t last = d->nodes - 1;
    printf("%u nodes are ready:\n", d->nodes);
    for (uint32_t i = 0; i < d->nodes; i++) printf("  node %u  clients 127.0.0.1:%u  pid %ld  log %s/node-%u.log\n", i + 1, port_of(d, i), (long)d->pids[i], d->path, i + 1);
    printf("\nTry, in another terminal:\n"
           "  redis-cli -p %u set greeting hello      any node takes any command\n"
           "  redis-cli -p %u get greeting            and every node sees it\n"
           "  sherd cluster status --server 127.0.0.1:%u\n"
           "  kill -9 %-31ld the others go on\n"
           "  sherd cluster join 127.0.0.1:%u --port %u --data %s/node-%u\n"
           "\nCtrl-C ends them%s.\n",
           port_of(d, 0), port_of(d, last), port_of(d, 0), (long)d->pids[last], port_of(d, 0), port_of(d, d->nodes), d->path, d->nodes + 1, d->dir ? "" : ", and their data is deleted");
    fflush(stdout);
}

/* ---- all of it */

static void wait_for_end(struct demo *d, const sigset_t *set)
{
    int got = 0;
    while (sigwait(set, &got) != 0 || got == SIGCHLD) {
        if (reap(d, true) == 0) {
            puts("no node is left");
            return;
        }
    }
    puts("ending the nodes");
}

static int run(struct demo *d)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (!has_ports(d) || !make_dir(d)) return EXIT_TROUBLE;
    bool good = true;
    for (uint32_t i = 0; i < d->nodes && good; i++) good = start_node(d, i);
    good = good && wait_until_ready(d);
    if (good) {
        say_what_to_try(d);
        wait_for_end(d, &set);
    }
    end_nodes(d);
    if (good) remove_dir(d);
    return good || is_asked_to_end() ? EXIT_WELL : EXIT_TROUBLE;
}

static void list_peers(struct demo *d)
{
    for (uint32_t i = 0; i < d->nodes; i++)
        buf_printf(&d->peers, "%s%u=127.0.0.1:%u/127.0.0.1:%u", i ? "," : "", i + 1, clusterconf_port(0, port_of(d, i)), port_of(d, i));
}

int clusterdemo_run(int argc, char **argv)
{
    struct demo d = {.nodes = 3, .port = 7001};
    const char *words[64];
    size_t n;
    if (cliargs_asks_help(argc, argv)) return show_help();
    if (argc > 64) return EXIT_USAGE;
    if (!cliargs_read(&args, &d, argc, argv, words, &n)) return EXIT_USAGE;
    if (n || d.nodes == 0 || d.port == 0) {
        cliargs_refuse(&args, n ? "nothing belongs here: " : "at least one node, and a port, are needed", n ? words[0] : "");
        return EXIT_USAGE;
    }
    list_peers(&d);
    int code = run(&d);
    buf_fini(&d.peers);
    return code;
}
