# tools/check_layout finds what it is for: offences are put into a copy of the sources, one of each kind.
. tests/cli/lib.sh

cp -r src include tools "$work/"
runs "the sources as they are" "$work/tools/check_layout"
# offence NAME FILE LINE: with that line at its end, the file is named; then the line goes again
offence() {
    cp "$work/$2" "$work/saved"
    echo "$3" >>"$work/$2"
    run "$work/tools/check_layout"
    cp "$work/saved" "$work/$2"
    if [ "$status" -eq 0 ]; then not_ok "$1" "not found"
    elif ! grep -q "^$2:" "$out"; then not_ok "$1" "another file was named"
    else ok "$1"; fi
}
offence "a room above" src/base/status.c '#include "store/store.h"'
offence "the command beside its header" src/cli/run.c '#include "os/os.h"'
offence "intrinsics" src/quant/types.c 'static __m256 x;'
offence "intrinsics by header" src/text/vocab.c '#include <immintrin.h>'
offence "file I/O" src/store/gguf.c 'static int f(void) { return open("x", 0); }'
offence "the JSON library" src/store/gguf.c '#include <jansson.h>'
offence "printing" src/engine/engine.c 'static void f(void) { printf("x"); }'
offence "ending the process" src/model/model.c 'static void f(void) { abort(); }'
offence "the environment" src/backend/backend.c 'static char *f(void) { return getenv("X"); }'
offence "an allocation of its own" src/text/vocab.c 'static void *f(void) { return malloc(1); }'
echo '/* printf("open("); abort(); */ static const char *f = "malloc( exit( jansson.h";' >>"$work/src/base/status.c"
runs "comments and strings are free" "$work/tools/check_layout"
mkdir "$work/src/attic"
run "$work/tools/check_layout"
check "a folder that is no room" grep -q '^src/attic:' "$out"
finish
