/* The browser of the tests under Wine: adds the URL that it is to open to the file that a test names. A program of Unix would
   not have the variable, because Wine gives those the environment of the first program. */
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    const char *name = getenv("MCP_TEST_OPENED");
    FILE *opened = name && count == 2 ? fopen(name, "ab") : NULL;
    if (!opened) return 1;
    fprintf(opened, "%s\n", arguments[1]);
    return fclose(opened) != 0;
}
