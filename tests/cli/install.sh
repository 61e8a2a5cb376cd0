# make install, and the example built against what was installed, shared and static.
. tests/cli/lib.sh
prefix=$work/prefix
model=$llama

if ! run make --no-print-directory BUILD="$BUILD" PREFIX="$prefix" install || [ "$status" -ne 0 ]; then
    not_ok "make install" "exit code $status"
    finish
    exit 0
fi
ok "make install"
for file in include/sluice.h lib/libsluice.a lib/libsluice.so lib/libsluice.so.0 lib/pkgconfig/sluice.pc bin/sluice share/man/man1/sluice.1; do
    check "$file is there" test -s "$prefix/$file"
done
check "the shared library has its soname" sh -c "readelf -d $prefix/lib/libsluice.so | grep -q 'SONAME.*libsluice\.so\.0\]'"
check "it exports nothing but sl_ names" sh -c "! nm -D --defined-only $prefix/lib/libsluice.so | awk '{ print \$3 }' | grep -v '^sl_' | grep -q ."
header=$(grep -c '^SL_API' include/sluice.h)
check "it exports every function of the header" test "$(nm -D --defined-only "$prefix/lib/libsluice.so" | grep -c ' T sl_')" -eq "$header"

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
CC=${CC:-gcc}
runs "the example, shared" sh -c "$CC -std=c11 -Wall -Wextra -Werror examples/stream.c $(pkg-config --cflags --libs sluice) -o $work/shared"
runs "the example, static" sh -c "$CC -std=c11 examples/stream.c $(pkg-config --cflags sluice) $prefix/lib/libsluice.a $(pkg-config --static --libs sluice | sed 's/-lsluice//') -o $work/static"
[ -f "$smollm2" ] && model=$smollm2
runs "it writes, shared" env LD_LIBRARY_PATH="$prefix/lib" "$work/shared" "$model" "The capital of France is" 64
cp "$out" "$work/text"
check "something" test -s "$work/text"
runs "it writes, static" "$work/static" "$model" "The capital of France is" 64
check "the same" cmp -s "$out" "$work/text"
run env LD_LIBRARY_PATH="$prefix/lib" "$work/shared" no/such/model x
check "it names what is missing" grep -q 'no/such/model' "$err"
runs "the installed command" "$prefix/bin/sluice" version
finish
