/* Stands between a broker and glibc: notes each call site, or makes one of them fail.
 *
 * In: a page of memory shared with the test (struct control), named by OS_FAULTS_CONTROL.
 * Out: in mode RECORD, a line per call site in the file OS_FAULTS_SITES; in mode INJECT, the fault.
 * A site is the call, the kind of file, and the innermost function of barnabas that is not in
 * barnabas/system. Always: where no fault is armed, a call costs one load and one compare. A call
 * in a signal handler is left alone: to ask the interpreter there where it is would be a deadlock.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OFF, RECORD, INJECT };
enum { SHORT = -1, SLOW = -2, FROZEN = -3 };  /* an action above 0 is an errno */

struct control {  /* tests/os_faults/control.py has the same layout */
    volatile int32_t mode, action, hits_max, hits, released, slow_ms, phase, holding;
    char call[32], kind[64], frame[160];
};

static struct control *control;
static int sites = -1;
static pid_t own;
static uint64_t seen[8192];
static __thread int inside;

static void forked(void) { own = getpid(); }

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("OS_FAULTS_CONTROL"), *out = getenv("OS_FAULTS_SITES");
    if (!path) return;
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *page = (void *)syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (page == MAP_FAILED) return;
    if (out) {
        fd = syscall(SYS_openat, AT_FDCWD, out, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        sites = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 700);
        syscall(SYS_close, fd);
    }
    forked();
    pthread_atfork(NULL, NULL, forked);  /* vfork does not run it: its child is left alone */
    control = page;
}

/* --- which site this is ------------------------------------------------------------------- */

static const char *const NAMED[] = {
    "leader-epoch-checkpoint", "partition.metadata", "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint",
    "meta.properties", ".kafka_cleanshutdown", ".lock", "keeper.db-journal", "keeper.db-wal",
    "keeper.db-shm", "keeper.db", NULL};
static const char *const ENDINGS[][2] = {
    {".timeindex", "time index"}, {".index", "offset index"}, {".snapshot", "producer snapshot"},
    {".log", "segment"}, {NULL, NULL}};

static void kind_of_path(const char *path, char *out, size_t size) {
    const char *data = getenv("OS_FAULTS_DATA");
    out[0] = 0;
    if (!path || !data || strncmp(path, data, strlen(data))) return;
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    for (int i = 0; NAMED[i]; i++)
        if (!strncmp(name, NAMED[i], strlen(NAMED[i]))) {
            snprintf(out, size, "%s", NAMED[i]);
            return;
        }
    for (int i = 0; ENDINGS[i][0]; i++)
        if (strstr(name, ENDINGS[i][0])) {
            snprintf(out, size, "%s", ENDINGS[i][1]);
            return;
        }
    snprintf(out, size, "directory");
    struct stat st;
    if (!syscall(SYS_stat, path, &st) && !S_ISDIR(st.st_mode)) snprintf(out, size, "other file");
}

static void kind_of_fd(int fd, char *out, size_t size) {
    char link[64], path[1024];
    out[0] = 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = syscall(SYS_readlink, link, path, sizeof path - 1);
    if (n <= 0) return;
    path[n] = 0;
    if (!strncmp(path, "socket:", 7)) snprintf(out, size, "socket");
    else if (!strncmp(path, "pipe:", 5)) snprintf(out, size, fd <= 2 ? "" : "pipe");
    else if (!strncmp(path, "anon_inode:[eventp", 18)) snprintf(out, size, "epoll");
    else kind_of_path(path, out, size);
}

typedef void *object;
static struct {
    int known;
    int (*initialized)(void);
    int (*finalizing)(void);
    object (*this_thread)(void);
    int (*ensure)(void);
    void (*release)(int);
    object (*frame)(void);
    object (*code)(object);
    object (*back)(object);
    object (*attribute)(object, const char *);
    const char *(*text)(object);
    void (*drop)(object);
    void (*fetch)(object *, object *, object *);
    void (*restore)(object, object, object);
} py;

static void find_python(void) {
#define FIND(field, name) py.field = dlsym(RTLD_DEFAULT, name)
    FIND(initialized, "Py_IsInitialized");
    FIND(finalizing, "_Py_IsFinalizing");
    FIND(this_thread, "PyGILState_GetThisThreadState");
    FIND(ensure, "PyGILState_Ensure");
    FIND(release, "PyGILState_Release");
    FIND(frame, "PyEval_GetFrame");
    FIND(code, "PyFrame_GetCode");
    FIND(back, "PyFrame_GetBack");
    FIND(attribute, "PyObject_GetAttrString");
    FIND(text, "PyUnicode_AsUTF8");
    FIND(drop, "Py_DecRef");
    FIND(fetch, "PyErr_Fetch");
    FIND(restore, "PyErr_Restore");
    py.known = 1;
}

static void frame_name(char *out, size_t size) {
    out[0] = 0;
    if (!py.known) find_python();
    if (!py.initialized || !py.initialized() || py.finalizing() || !py.this_thread()) return;
    int state = py.ensure();
    object kind, value, trace, frame = py.frame(), held = NULL;
    py.fetch(&kind, &value, &trace);
    while (frame && !out[0]) {
        object code = py.code(frame);
        object file = py.attribute(code, "co_filename"), name = py.attribute(code, "co_qualname");
        const char *path = file ? py.text(file) : NULL, *called = name ? py.text(name) : NULL;
        const char *at = path ? strstr(path, "barnabas/") : NULL;
        for (const char *next = at; next; next = strstr(next + 1, "barnabas/")) at = next;
        if (at && called && strncmp(at, "barnabas/system/", 16) && strstr(at, ".py"))
            snprintf(out, size, "%.80s:%.70s", at + 9, called);
        if (file) py.drop(file);
        if (name) py.drop(name);
        py.drop(code);
        object back = py.back(frame);
        if (held) py.drop(held);
        held = frame = back;
    }
    if (held) py.drop(held);
    py.restore(kind, value, trace);
    py.release(state);
}

static void note(const char *call, const char *kind) {
    char frame[160], line[320];
    frame_name(frame, sizeof frame);
    int n = snprintf(line, sizeof line, "%d\t%s\t%s\t%s\n", control->phase, call, kind, frame);
    uint64_t hash = 1469598103934665603ULL;
    for (int i = 0; i < n; i++) hash = (hash ^ (unsigned char)line[i]) * 1099511628211ULL;
    for (unsigned i = 0; i < 8192; i++) {
        uint64_t *slot = &seen[(hash + i) % 8192];
        if (*slot == hash) return;
        if (!*slot) {
            *slot = hash;
            break;
        }
    }
    syscall(SYS_write, sites, line, n);
}

/* 0: go on; else the action that befalls this call. */
static int fate(const char *call, const char *path, int fd) {
    struct control *c = control;
    if (!c || c->mode == OFF || inside) return 0;
    if (c->mode == INJECT && strcmp(c->call, call)) return 0;
    int before = errno, action = 0;
    inside = 1;
    char kind[64], frame[160];
    if (getpid() != own) goto out;
    if (path) kind_of_path(path, kind, sizeof kind);
    else if (fd >= 0) kind_of_fd(fd, kind, sizeof kind);
    else snprintf(kind, sizeof kind, "new descriptor");
    if (!kind[0]) goto out;
    if (c->mode == RECORD) {
        note(call, kind);
        goto out;
    }
    if (strcmp(kind, c->kind)) goto out;
    frame_name(frame, sizeof frame);
    if (strcmp(frame, c->frame)) goto out;
    if (__atomic_fetch_add(&c->hits, 1, __ATOMIC_SEQ_CST) >= c->hits_max) goto out;
    action = c->action;
    struct timespec pause = {0, 1000000};
    if (action == FROZEN) {
        c->holding = 1;
        while (!c->released) syscall(SYS_nanosleep, &pause, NULL);
        action = 0;
    } else if (action == SLOW) {
        for (int left = c->slow_ms; left > 0; left--) syscall(SYS_nanosleep, &pause, NULL);
        action = 0;
    }
out:
    inside = 0;
    errno = before;
    return action;
}

/* --- signal handlers -------------------------------------------------------------------------- */

static struct sigaction handlers[NSIG];

static void handle(int number, siginfo_t *info, void *context) {
    int before = inside;
    inside = 1;
    if (handlers[number].sa_flags & SA_SIGINFO) handlers[number].sa_sigaction(number, info, context);
    else handlers[number].sa_handler(number);
    inside = before;
}

int sigaction(int number, const struct sigaction *wanted, struct sigaction *old) {
    static __typeof__(&sigaction) real;
    if (!real) real = dlsym(RTLD_NEXT, "sigaction");
    if (number < 1 || number >= NSIG) return real(number, wanted, old);
    struct sigaction ours, theirs = handlers[number], before;
    if (wanted) {
        ours = *wanted;
        if (wanted->sa_handler != SIG_DFL && wanted->sa_handler != SIG_IGN) {
            handlers[number] = *wanted;
            ours.sa_sigaction = handle;
            ours.sa_flags |= SA_SIGINFO;
        }
    }
    int done = real(number, wanted ? &ours : NULL, &before);
    if (old) *old = before.sa_sigaction == handle ? theirs : before;
    return done;
}

/* --- the calls ------------------------------------------------------------------------------ */

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = dlsym(RTLD_NEXT, #name)
#define FAIL(action) do { errno = (action); return -1; } while (0)
#define BY_FD(type, name, call, declared, passed) \
    type name declared { \
        REAL(name); \
        int action = fate(call, NULL, fd); \
        if (action > 0) FAIL(action); \
        return real passed; \
    }
#define BY_PATH(type, name, call, declared, passed) \
    type name declared { \
        REAL(name); \
        int action = fate(call, path, -1); \
        if (action > 0) FAIL(action); \
        return real passed; \
    }
#define LESS(action, n) ((action) == SHORT && (n) > 1 ? (n) / 2 : (n))
#define WRITES(type, name, call, declared, n, passed) \
    type name declared { \
        REAL(name); \
        int action = fate(call, NULL, fd); \
        if (action > 0) FAIL(action); \
        n = LESS(action, n); \
        return real passed; \
    }
#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        int action = fate(flags & O_CREAT ? "create" : "open", path, -1); \
        if (action > 0) FAIL(action); \
        return real(path, flags, mode); \
    }

OPENS(open)
OPENS(open64)
WRITES(ssize_t, read, "read", (int fd, void *b, size_t n), n, (fd, b, n))
WRITES(ssize_t, pread, "pread", (int fd, void *b, size_t n, off_t o), n, (fd, b, n, o))
WRITES(ssize_t, pread64, "pread", (int fd, void *b, size_t n, off64_t o), n, (fd, b, n, o))
WRITES(ssize_t, write, "write", (int fd, const void *b, size_t n), n, (fd, b, n))
WRITES(ssize_t, pwrite, "pwrite", (int fd, const void *b, size_t n, off_t o), n, (fd, b, n, o))
WRITES(ssize_t, pwrite64, "pwrite", (int fd, const void *b, size_t n, off64_t o), n, (fd, b, n, o))
BY_FD(int, fsync, "fsync", (int fd), (fd))
BY_FD(int, fdatasync, "fdatasync", (int fd), (fd))
BY_FD(int, ftruncate, "ftruncate", (int fd, off_t n), (fd, n))
BY_FD(int, ftruncate64, "ftruncate", (int fd, off64_t n), (fd, n))
BY_PATH(int, rename, "rename", (const char *path, const char *to), (path, to))
BY_PATH(int, unlink, "unlink", (const char *path), (path))
BY_PATH(int, rmdir, "rmdir", (const char *path), (path))
BY_PATH(int, mkdir, "mkdir", (const char *path, mode_t m), (path, m))
WRITES(ssize_t, recv, "recv", (int fd, void *b, size_t n, int f), n, (fd, b, n, f))
WRITES(ssize_t, send, "send", (int fd, const void *b, size_t n, int f), n, (fd, b, n, f))
BY_FD(int, accept4, "accept4", (int fd, __SOCKADDR_ARG a, socklen_t *n, int f), (fd, a, n, f))
BY_FD(int, connect, "connect", (int fd, __CONST_SOCKADDR_ARG a, socklen_t n), (fd, a, n))

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    REAL(sendmsg);
    int action = fate("sendmsg", NULL, fd);
    if (action > 0) FAIL(action);
    struct msghdr part = *message;
    if (action == SHORT && part.msg_iovlen > 1) part.msg_iovlen = 1;
    return real(fd, &part, flags);
}

ssize_t splice(int fd, off64_t *in, int to, off64_t *out, size_t n, unsigned flags) {
    REAL(splice);
    int action = fate(in ? "splice from a file" : "splice to a socket", NULL, in ? fd : to);
    if (action > 0) FAIL(action);
    n = LESS(action, n);
    return real(fd, in, to, out, n, flags);
}

int close(int fd) {
    int action = fate("close", NULL, fd);
    int done = syscall(SYS_close, fd);
    if (action > 0) FAIL(action);  /* the descriptor is gone all the same, as on Linux */
    return done;
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
    REAL(epoll_ctl);
    int action = operation == EPOLL_CTL_ADD ? fate("epoll_ctl", NULL, fd) : 0;
    if (action > 0) FAIL(action);
    return real(epoll, operation, fd, event);
}

int socket(int domain, int type, int protocol) {
    REAL(socket);
    int action = fate("socket", NULL, -1);
    if (action > 0) FAIL(action);
    return real(domain, type, protocol);
}

int pipe2(int ends[2], int flags) {
    REAL(pipe2);
    int action = fate("pipe2", NULL, -1);
    if (action > 0) FAIL(action);
    return real(ends, flags);
}

static int dup_fate(int fd, int command) {
    return command == F_DUPFD_CLOEXEC || command == F_DUPFD ? fate("dup", NULL, fd) : 0;
}

#define FCNTL(name) \
    int name(int fd, int command, ...) { \
        REAL(name); \
        va_list more; \
        va_start(more, command); \
        void *argument = va_arg(more, void *); \
        va_end(more); \
        int action = dup_fate(fd, command); \
        if (action > 0) FAIL(action); \
        return real(fd, command, argument); \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

#define MAPS(name, offset_type) \
    void *name(void *at, size_t n, int protection, int flags, int fd, offset_type o) { \
        REAL(name); \
        int action = fd >= 0 && control ? fate("mmap", NULL, fd) : 0; \
        if (action > 0) { errno = action; return MAP_FAILED; } \
        return real(at, n, protection, flags, fd, o); \
    }
MAPS(mmap64, off64_t)

DIR *opendir(const char *path) {
    REAL(opendir);
    int action = fate("opendir", path, -1);
    if (action > 0) { errno = action; return NULL; }
    return real(path);
}
