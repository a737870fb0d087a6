/* A program of the self-contained folder: it runs the folder's Python with the folder's loader and libraries.
   It is static and finds its folder by its own name, so it needs no shell, no /proc and no library of the system.
   It first asks the kernel for all that a command reads, at once: page faults read a cold disk bit by bit.
   Built with -DPYTHON="python3.11" -DLOADER="ld-linux-x86-64.so.2", and -DMODULE="kafkats" for `python -m kafkats`. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/uio.h>
#include <unistd.h>

static char *in(const char *home, const char *name) {
    char *path = NULL;
    if (asprintf(&path, "%s/%s", home, name) < 0) exit(127);
    return path;
}

/* The loader ends a process whose LD_PRELOAD or LD_AUDIT it cannot load, and those of a broker are made for the system's C
   library. They have another name meanwhile: kafkats/cli/startup.py gives them back to a command that kafkats becomes. */
static void set_aside(const char *name, const char *other) {
    const char *value = getenv(name);
    if (value == NULL) return;
    if (setenv(other, value, 1) != 0) exit(127);
    unsetenv(name);
}

#ifdef MODULE
/* Reads ahead the parts of files that lib/read-ahead names (tools/read_ahead.py), unless the first one is in memory. */
static void read_ahead(const char *home) {
    char *path = in(home, "lib/read-ahead"), name[PATH_MAX], byte;
    FILE *list = fopen(path, "r");
    struct iovec one = {&byte, 1};
    long offset, length;
    for (int n = 0; list && fscanf(list, "%ld %ld %4095[^\n]", &offset, &length, name) == 3; n++) {
        free(path);
        path = in(home, name);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0) continue;
        if (n == 0 && preadv2(file, &one, 1, offset, RWF_NOWAIT) == 1) break;
        posix_fadvise(file, offset, length, POSIX_FADV_WILLNEED);
        close(file);
    }
    if (list) fclose(list);
    free(path);
}
#endif

int main(int count, char **words) {
    char home[PATH_MAX];
    const char *name = (const char *)getauxval(AT_EXECFN);
    if (name == NULL || realpath(name, home) == NULL) {
        perror(words[0]);
        return 127;
    }
    *strrchr(home, '/') = '\0';
#ifdef MODULE
    read_ahead(home);
#endif
    set_aside("LD_PRELOAD", "KAFKATS_LD_PRELOAD");
    set_aside("LD_AUDIT", "KAFKATS_LD_AUDIT");
    char *loader = in(home, "lib/" LOADER);
    char **command = calloc((size_t)count + 8, sizeof *command);
    if (command == NULL || setenv("KAFKATS_HOME", home, 1) != 0) return 127;
    char **next = command;
    *next++ = loader;
    *next++ = "--library-path";
    *next++ = in(home, "lib");
    *next++ = in(home, "bin/" PYTHON);
    *next++ = "-I";
#ifdef MODULE
    *next++ = "-m";
    *next++ = MODULE;
#endif
    memcpy(next, words + 1, (size_t)count * sizeof *next); /* with the NULL at the end */
    execv(loader, command);
    perror(loader);
    return 127;
}
