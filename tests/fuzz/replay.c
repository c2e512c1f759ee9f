/* A main for fuzz targets without libFuzzer: feeds every file of the folder in argv[1] to the target. An empty or missing
 * folder is a failure, so that a lost corpus is noticed. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void feed(const char *path, size_t size)
{
    FILE *f = fopen(path, "rb");
    /* Exactly as long as the input, so that a sanitizer sees the first byte read past it. */
    uint8_t *data = malloc(size ? size : 1);
    if (!f || !data || fread(data, 1, size, f) != size) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    fclose(f);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

int main(int argc, char **argv)
{
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    if (!dir) {
        fprintf(stderr, "usage: replay FOLDER (with at least one input)\n");
        return 1;
    }
    unsigned inputs = 0;
    for (struct dirent *d; (d = readdir(dir));) {
        char path[4096];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", argv[1], d->d_name);
        if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) continue;
        feed(path, (size_t)st.st_size);
        inputs++;
    }
    closedir(dir);
    printf("%u inputs\n", inputs);
    return inputs ? 0 : 1;
}
