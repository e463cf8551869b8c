package shellword

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuote(t *testing.T) {
	require.Equal(t, "snap/a-1.tar.gz", Quote("snap/a-1.tar.gz"))
	require.Equal(t, "'my dump.json'", Quote("my dump.json"))
	require.Equal(t, `'it'\''s'`, Quote("it's"))
	require.Equal(t, "''", Quote(""))
	require.NotContains(t, Quote("a\x1b[2Jb"), "\x1b")
}

// A shell reads each word as it was.
func TestShellReadsWords(t *testing.T) {
	bash, err := exec.LookPath("bash")
	require.NoError(t, err)
	words := []string{"plain", "my dump.json", "it's", "", "$HOME", "`id`", "a;b", "tab\there", "new\nline", "esc\x1b[2J'\\ ", "naïve", "*", "~", "#x", "!x"}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	command := strings.Join(quoted, " ")
	require.Equal(t, quoted, Split(command))
	cmd := exec.Command(bash, "-c", `printf '%s\0' `+command)
	cmd.Env = []string{"LC_ALL=C.UTF-8"}
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, strings.Join(words, "\x00")+"\x00", string(out))
}

func TestClean(t *testing.T) {
	require.Equal(t, "a�[2Jb�c�d", Clean("a\x1b[2Jb\nc\u202ed"))
	var out bytes.Buffer
	w := Writer{&out}
	for _, part := range []string{"a\n\tb\x1b[2J\r\u009b", "\xc3", "\xa9\n"} { // a rune in two writes
		n, err := w.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	require.Equal(t, "a\n\tb�[2J��é\n", out.String())
}
