//go:build e2e

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/e2e"
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

// record has a version go on with the recording of the cluster until it has noted a pod that
// came meanwhile, and checks that nothing recorded before is lost and that both versions read
// the trace.
func (u *upgraded) record(version string) {
	u.Helper()
	day, recording := filepath.Join(u.recorded, "day"), filepath.Join(u.recorded, ".day.recording.jsonl")
	before, err := os.ReadFile(recording)
	if !os.IsNotExist(err) {
		require.NoError(u, err)
	}
	mark := u.stream.mark()
	p := e2e.StartProcess(u, fmt.Sprintf("snapshot-%d", mark), program(u.T, "sigma:"+version),
		"snapshot", "--out", day, "--watch", "2h", "--quiet", "--kubeconfig", filepath.Join(u.c.Dir, "kubeconfig"))
	u.stream.await(u.T, mark, 4)
	u.stream.mu.Lock()
	name := u.ns + "/" + u.stream.names[mark]
	u.stream.mu.Unlock()
	e2e.Wait(u, "a recording of "+name, func() (string, bool) {
		text, err := os.ReadFile(recording)
		return fmt.Sprint(err), err == nil && bytes.HasPrefix(text, before) && bytes.Contains(text[len(before):], []byte(name))
	})
	p.Stop(u)
	for _, reader := range []string{former, present} {
		u.sigmaOf(reader, "replay", "--trace", day, "--policy", "bestfit", "--quiet")
	}
	u.Logf("the version %s continued a recording of %d bytes; both versions read its trace", version, len(before))
}

// TestUpgradeFiles has each of the two versions resume the training that the other one has
// begun, and use the policy that comes of it.
func TestUpgradeFiles(t *testing.T) {
	if os.Getenv(formerVariable) == "" {
		t.Skip("make e2e-upgrade builds the former version, and names it in " + formerVariable)
	}
	t.Chdir(t.TempDir())
	sigma := func(version string, args ...string) {
		t.Helper()
		out, err := exec.Command(program(t, "sigma:"+version), args...).CombinedOutput()
		require.NoError(t, err, "sigma %v of version %s: %s", args, version, out)
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(text)
	}
	train := func(version, folder string) (checkpoint, policy string) {
		t.Helper()
		sigma(version, "train", "--trace", "seen", "--evaluations", "60", "--workers", "1", "--checkpoint", folder, "--quiet", "--out", "policy.yaml")
		return read(filepath.Join(folder, "train.checkpoint")), read("policy.yaml")
	}
	for _, turn := range [][2]string{{former, present}, {present, former}} {
		first, second := turn[0], turn[1]
		require.NoError(t, os.RemoveAll("seen"))
		sigma(first, "generate", "small", "--seed", "1", "--out", "seen")
		whole, policy := train(first, "run-of-"+first)
		lines := strings.SplitAfter(whole, "\n")
		half := strings.Join(lines[:30], "") + lines[30][:9] // a kill cuts off a line
		require.NoError(t, os.Mkdir("resumed-by-"+second, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join("resumed-by-"+second, "train.checkpoint"), []byte(half), 0o600))
		resumed, same := train(second, "resumed-by-"+second)
		require.Equal(t, whole, resumed, "%s resumed by %s", first, second)
		require.Equal(t, policy, same, "%s resumed by %s", first, second)
		sigma(first, "compare", "--trace", "seen", "--policy", "bestfit,./policy.yaml", "--quiet")
		t.Logf("a training of %d evaluations, half by the version %s and half by %s: the same checkpoint and policy", len(lines)-2, first, second)
	}
}
