/* Runs a fuzz target over the files named on the command line, so that a corpus is a test without libFuzzer.  Not
 * linked when the compiler brings its own main (clang -fsanitize=fuzzer). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes of a file in a block of exactly its size, so that a sanitizer sees one byte too many. */
static uint8_t *load(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    long n = -1;
    if (f && fseek(f, 0, SEEK_END) == 0) n = ftell(f);
    uint8_t *data = n >= 0 ? malloc(n ? (size_t)n : 1) : NULL;
    if (data) {
        rewind(f);
        *size = fread(data, 1, (size_t)n, f);
        if (*size != (size_t)n) {
            free(data);
            data = NULL;
        }
    }
    if (f) fclose(f);
    return data;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        size_t size;
        uint8_t *data = load(argv[i], &size);
        if (!data) {
            fprintf(stderr, "error: %s: cannot be read\n", argv[i]);
            return 1;
        }
        LLVMFuzzerTestOneInput(data, size);
        free(data);
    }
    printf("%d inputs\n", argc - 1);
    return argc > 1 ? 0 : 2;
}
