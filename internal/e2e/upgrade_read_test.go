//go:build e2e

package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// requireJournal checks that the present autoscaler continues the journal of the other one,
// and that both versions compute the same decisions from it.
func (u *upgraded) requireJournal() {
	u.Helper()
	files, err := filepath.Glob(filepath.Join(u.journals, u.ns, "web.*.jsonl"))
	require.NoError(u, err)
	require.Len(u, files, 1)
	text, err := os.ReadFile(files[0])
	require.NoError(u, err)
	starts := regexp.MustCompile(`(?m)^\{"kind":"start".*$`).FindAllString(string(text), -1)
	require.NotEmpty(u, starts)
	for _, start := range starts[1:] {
		require.Contains(u, start, `"continues":true`)
	}
	for _, version := range []string{former, present} {
		out := u.sigmaOf(version, "mpa", "replay", files[0])
		counts := regexp.MustCompile(`(\d+) decisions, (\d+) equal`).FindStringSubmatch(out)
		require.Len(u, counts, 3, out)
		require.Equal(u, counts[1], counts[2], "sigma %s", version)
		u.Logf("journal of %d starts, read by the version %s: %s decisions, %s equal", len(starts), version, counts[1], counts[2])
	}
}

func (u *upgraded) sigmaOf(version string, args ...string) string {
	u.Helper()
	out, err := exec.Command(program(u.T, "sigma:"+version), args...).CombinedOutput()
	require.NoError(u, err, "sigma %v of version %s: %s", args, version, out)
	return string(out)
}

// requireLogs replays all decision logs with both versions, and checks that the last decision
// on every pod of the stream is where it went.
func (u *upgraded) requireLogs() {
	u.Helper()
	require.GreaterOrEqual(u, len(u.logs), 6)
	decided := map[string]string{}
	for i, log := range u.logs {
		for _, version := range []string{former, present} {
			out := u.sigmaOf(version, "replay", "--log", log)
			require.Regexp(u, `agreed +\d+ of \d+ = 100 %|decisions +0\n`, out) // a replica that never led decided nothing
			require.Regexp(u, `refused +0 pods`, out)
			u.Logf("decision log %d, read by the version %s: %s", i, version, strings.Join(strings.Fields(out)[2:], " "))
		}
		text, err := os.ReadFile(log)
		require.NoError(u, err)
		for line := range bytes.Lines(text) {
			var e ledger.Event
			if json.Unmarshal(line, &e) == nil && e.Kind == ledger.KindDecide {
				decided[e.UID] = e.Node
			}
		}
	}
	for name, b := range u.stream.bound {
		require.Equal(u, b.node, decided[b.uid], name)
	}
}
