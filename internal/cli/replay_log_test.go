package cli

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// docs/decision-log.md shows lines of the example and what replay and convert print
// of it, and names every kind and every field that there is.
func TestDecisionLogPage(t *testing.T) {
	t.Chdir("../..")
	const example = "docs/examples/decisions.jsonl"
	page, text := readText(t, "docs/decision-log.md"), readText(t, example)
	var out, errs bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"replay", "--log", example}, &out, &errs), errs.String())
	require.Contains(t, page, "$ sigma replay --log "+example+"\n"+out.String()+"```\n")

	recorded := filepath.Join(t.TempDir(), "recorded")
	out.Reset()
	require.Equal(t, exitOK, run(t.Context(), []string{"convert", "log", example, "--out", recorded}, &out, &errs), errs.String())
	require.Contains(t, page, "$ sigma convert log "+example+" --out recorded\n"+strings.ReplaceAll(out.String(), recorded, "recorded"))

	_, shown, _ := strings.Cut(page, "```json\n")
	shown, _, _ = strings.Cut(shown, "```")
	for line := range strings.Lines(shown) {
		require.Contains(t, text, line)
	}
	require.Equal(t, 6, strings.Count(shown, "\n"))

	for _, of := range []any{ledger.Event{}, ledger.Start{}, ledger.Machine{}, ledger.App{}, ledger.Rule{}, ledger.Decision{}, ledger.Change{}, ledger.Counters{}, ledger.Window{}} {
		for field := range reflect.TypeOf(of).Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
				require.Contains(t, page, "`"+name+"`", "%T", of)
			}
		}
	}
	kinds := regexp.MustCompile(`Kind = "([a-z-]+)"`).FindAllStringSubmatch(readText(t, "plugins/ledger/event.go"), -1)
	require.Greater(t, len(kinds), 10)
	for _, kind := range kinds {
		require.Contains(t, page, "\n| `"+kind[1]+"` |")
	}
}

// An interrupt ends the reading of a log that does not end.
func TestReplayLogInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, feed := io.Pipe()
	t.Cleanup(func() { require.NoError(t, feed.Close()) })
	var out, errs bytes.Buffer
	app := &app{stdout: &out, stderr: &errs}
	root := app.root()
	root.SetArgs([]string{"replay", "--log", "-"})
	root.SetIn(in)
	go func() {
		_, _ = feed.Write([]byte("\n")) // it was read: now the reader waits for more
		cancel()
	}()
	require.ErrorIs(t, root.ExecuteContext(ctx), context.Canceled)
	require.Empty(t, out.String())
}
