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
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// requireJournal checks that the present autoscaler continues the former's journal, and
// computes the same decisions from it. The former sets the present one's aside, which it
// refuses to read, and begins another.
func (u *upgraded) requireJournal(version string) {
	u.Helper()
	files, err := filepath.Glob(filepath.Join(u.journals, u.ns, "web.*"))
	require.NoError(u, err)
	require.Len(u, files, map[string]int{present: 1, former: 2}[version], "%v", files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(u, err)
		starts := regexp.MustCompile(`(?m)^\{"kind":"start".*$`).FindAllString(string(text), -1)
		require.NotEmpty(u, starts)
		for _, start := range starts[1:] {
			require.Contains(u, start, `"continues":true`)
		}
		name := "journal" + strings.TrimPrefix(filepath.Ext(file), ".jsonl")
		later := strings.Contains(string(text), `"format":3`)
		require.Equal(u, version == present || name != "journal", later, name)
		for _, reader := range []string{former, present} {
			out, err := u.sigma(reader, "mpa", "replay", file)
			if reader == former && later {
				require.Error(u, err, out)
				require.Regexp(u, `jsonl(\.broken)?:\d+: (start.format 3: this program reads 1 to 2|unknown field "cpuChanges")`, out)
				u.Logf("%s of %d starts: the version %s refuses format 3, with its line", name, len(starts), reader)
				continue
			}
			require.NoError(u, err, out)
			counts := regexp.MustCompile(`(\d+) decisions, (\d+) equal`).FindStringSubmatch(out)
			require.Len(u, counts, 3, out)
			require.Equal(u, counts[1], counts[2], "sigma %s", reader)
			u.Logf("%s of %d starts, read by the version %s: %s decisions, %s equal", name, len(starts), reader, counts[1], counts[2])
		}
	}
}

// nameServer applies the sample of a version that names a Prometheus server: up to 35cf6bd
// by its address, which all accept, later by its name.
func (u *upgraded) nameServer() {
	u.Helper()
	u.page().shell(u.T, "kubectl apply -f autoscaler/manifests/mpa/samples/slo.yaml")
	const path = ".spec.metrics.prometheus."
	require.NotEmpty(u, u.c.Kubectl(u, "", "get", "mpa", "shop", "-o", "jsonpath={"+path+"address}{"+path+"server}"))
}

// moveLog takes the leader's decision log away, and waits for the next.
func (u *upgraded) moveLog() {
	u.Helper()
	log := filepath.Join(u.leader.dir, "decisions.jsonl")
	require.NoError(u, os.Rename(log, log+".moved"))
	at := slices.Index(u.logs, log)
	require.GreaterOrEqual(u, at, 0)
	u.logs = slices.Insert(u.logs, at, log+".moved")
	e2e.Wait(u, "a log that goes on in a new file", func() (string, bool) {
		text, err := os.ReadFile(log)
		return fmt.Sprint(err), err == nil && bytes.Contains(text, []byte(`"kind":"past"`))
	})
}

// sigma runs the command-line program of a version.
func (u *upgraded) sigma(version string, args ...string) (string, error) {
	u.Helper()
	out, err := exec.Command(program(u.T, "sigma:"+version), args...).CombinedOutput()
	return string(out), err
}

func (u *upgraded) sigmaOf(version string, args ...string) string {
	u.Helper()
	out, err := u.sigma(version, args...)
	require.NoError(u, err, "sigma %v of version %s: %s", args, version, out)
	return out
}

// requireLogs replays all decision logs with both versions, and checks that the last decision
// on every pod of the stream is where it went. The former version refuses a log with fields
// that it does not know.
func (u *upgraded) requireLogs() {
	u.Helper()
	require.GreaterOrEqual(u, len(u.logs), 7)
	decided, refused := map[string]string{}, 0
	for i, log := range u.logs {
		text, err := os.ReadFile(log)
		require.NoError(u, err)
		for _, version := range []string{former, present} {
			out, err := u.sigma(version, "replay", "--log", log)
			if version == former && err != nil {
				found := regexp.MustCompile(`decisions\.jsonl[^:]*:\d+: unknown field .*`).FindString(out)
				require.NotEmpty(u, found, out)
				u.Logf("decision log %d is refused by the version %s: %s", i, version, found)
				refused++
				continue
			}
			require.NoError(u, err, out)
			require.Regexp(u, `agreed +\d+ of \d+ = 100 %|decisions +0\n`, out) // a replica that never led decided nothing
			require.Regexp(u, `refused +0 pods`, out)
			u.Logf("decision log %d, read by the version %s: %s", i, version, strings.Join(strings.Fields(out)[2:], " "))
		}
		for line := range bytes.Lines(text) {
			var e ledger.Event
			if json.Unmarshal(line, &e) == nil && e.Kind == ledger.KindDecide {
				decided[e.UID] = e.Node
			}
		}
	}
	require.Positive(u, refused, "the log that went on in a new file")
	for name, b := range u.stream.bound {
		require.Equal(u, b.node, decided[b.uid], name)
	}
}

// record has a version go on with the recording of the cluster until it has noted a pod that
// came meanwhile, and checks that nothing recorded before is lost, and that the present one reads
// the trace. The former one refuses a trace with keys that it does not know.
func (u *upgraded) record(version string) {
	u.Helper()
	day, recording := filepath.Join(u.recorded, "day"), filepath.Join(u.recorded, ".day.recording.jsonl")
	before, err := os.ReadFile(recording)
	if !os.IsNotExist(err) {
		require.NoError(u, err)
	}
	args := []string{"snapshot", "--out", day, "--watch", "2h", "--quiet", "--kubeconfig", filepath.Join(u.c.Dir, "kubeconfig")}
	if version == former && bytes.Contains(before, []byte(`"maxShareOfApp":`)) { // it continues no fields that it does not know
		out, err := u.sigma(version, args...)
		require.Error(u, err)
		why := regexp.MustCompile(`recording\.jsonl:\d+: .*`).FindString(out)
		require.NotEmpty(u, why, out)
		after, err := os.ReadFile(recording)
		require.NoError(u, err)
		require.Equal(u, before, after, "it stays for the present version")
		u.Logf("the version %s refuses a recording of %d bytes: %s", version, len(before), why)
		return
	}
	mark := u.stream.mark()
	p := e2e.StartProcess(u, fmt.Sprintf("snapshot-%d", mark), program(u.T, "sigma:"+version), args...)
	u.stream.await(u.T, mark, 4)
	u.stream.mu.Lock()
	name := u.ns + "/" + u.stream.names[mark]
	u.stream.mu.Unlock()
	e2e.Wait(u, "a recording of "+name, func() (string, bool) {
		text, err := os.ReadFile(recording)
		return fmt.Sprint(err), err == nil && bytes.HasPrefix(text, before) && bytes.Contains(text[len(before):], []byte(name))
	})
	p.Stop(u)
	u.sigmaOf(present, "replay", "--trace", day, "--policy", "bestfit", "--quiet")
	reads := "both versions read its trace"
	if out, err := u.sigma(former, "replay", "--trace", day, "--policy", "bestfit", "--quiet"); err != nil {
		require.NotEqual(u, former, version, "it writes what it reads: %s", out)
		reads = regexp.MustCompile(`trace\.yaml:\d+: .*: unknown key`).FindString(out)
		require.NotEmpty(u, reads, out)
		reads = "the version before refuses its trace: " + reads
	}
	u.Logf("the version %s continued a recording of %d bytes; %s", version, len(before), reads)
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
		shadow := func(text string) string { return strings.Replace(text, "mode: live", "mode: shadow", 1) } // the former version's default
		require.Equal(t, shadow(policy), shadow(same), "%s resumed by %s", first, second)
		sigma(first, "compare", "--trace", "seen", "--policy", "bestfit,./policy.yaml", "--quiet")
		t.Logf("a training of %d evaluations, half by the version %s and half by %s: the same checkpoint and policy", len(lines)-2, first, second)
	}
}
