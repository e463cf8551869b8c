package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/savings"
)

// commandsOf are the commands of a bill: those of its JSON and those of its screen, whose lines a shell joins.
func commandsOf(t *testing.T, asJSON, screen string) (all []string) {
	t.Helper()
	b := parsed[aBill](t, asJSON)
	all = append(all, b.Snapshot)
	for _, s := range b.Steps {
		all = append(all, s.Command)
	}
	for _, c := range b.Constraints {
		all = append(all, c.Command)
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(screen, "\\\n", ""), "\n") {
		_, after, _ := strings.Cut(line, ": ")
		for _, text := range []string{strings.TrimSpace(line), after} {
			if strings.HasPrefix(text, "sigma ") || strings.HasPrefix(text, "kubectl ") {
				all = append(all, text)
			}
		}
	}
	return all
}

// requireAccepted types a command until its flags and their combination are accepted: nothing is done after that.
func requireAccepted(t *testing.T, command string) {
	t.Helper()
	done, cancel := context.WithCancel(t.Context())
	cancel()
	command, _, _ = strings.Cut(command, " | jq ")
	for part := range strings.SplitSeq(command, " && ") {
		words := slices.DeleteFunc(typed(part), func(word string) bool { return word == "" }) // of joined lines
		if words[0] == "kubectl" {
			require.Equal(t, []string{"delete", "node"}, words[1:3], part)
			continue
		}
		var out, wrong bytes.Buffer
		require.NotEqual(t, exitUsage, run(done, words[1:], &out, &wrong), "%s: %s", part, wrong.String())
	}
}

// Every command that a bill prints is one that the program takes.
func TestPrintedCommandsAreAccepted(t *testing.T) {
	folder, err := filepath.Abs("../../docs/examples")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	dump, use := filepath.Join(folder, "messy.json.gz"), filepath.Join(folder, "messy.csv.gz")
	require.NoError(t, os.Symlink(dump, "dump.json.gz"))
	shortUse(t, use, "ten days.csv.gz", 10*24)
	require.NoError(t, os.WriteFile("prices.csv", []byte("instance_type,capacity_type,region,price_per_hour\n,,,1\n"), 0o600))
	outputOf(t, "snapshot", "--from", dump+","+use, "--out", "my snap")
	outputOf(t, "convert", "usage", "my snap", "--judge", "168h", "--out", "used")
	for name, args := range map[string][]string{
		"a dump":            {"--from", "dump.json.gz", "--prices", "prices.csv", "--fleet", "fixed", "--app-label", "app", "--seed", "7"},
		"with too few days": {"--from", "dump.json.gz,ten days.csv.gz"},
		"a trace":           {"--trace", "my snap"},
		"by use":            {"--trace", "used"},
	} {
		args = append([]string{"savings", "--quiet"}, args...)
		all := commandsOf(t, outputOf(t, append(args, "--format", "json")...), outputOf(t, args...))
		require.Greater(t, len(all), 8, name)
		for _, command := range all {
			if command != "" {
				requireAccepted(t, command)
			}
		}
	}

	tr, err := trace.LoadAll("used", trace.DefaultUnpacked) // as with a Prometheus
	require.NoError(t, err)
	f := savingsFlags{from: []string{"-", use}, seed: 7, metrics: prometheusFlags{servers: []string{"http://127.0.0.1:1"}, match: `cluster="a"`}}
	f.cluster.fleet = "open"
	source := f.source(f.from[:1])
	require.Equal(t, "sigma snapshot --from FILE,"+use+" --out snap", source.Snapshot)
	choice := policyFlags{ties: "random"}
	catalog, err := choice.catalog(f.seed)
	require.NoError(t, err)
	for _, days := range []int{0, 10} {
		b, err := savings.Of(t.Context(), tr[0], savings.Options{Source: source, Catalog: catalog, Workers: 2, Seed: f.seed, Days: days})
		require.NoError(t, err)
		text, err := json.Marshal(b)
		require.NoError(t, err)
		var screen strings.Builder
		require.NoError(t, b.Print(&screen, false))
		for _, command := range commandsOf(t, string(text), screen.String()) {
			if command != "" {
				requireAccepted(t, command)
			}
		}
	}
}

// The command of the line of batch work prints the figures of the line.
func TestBatchIsTyped(t *testing.T) {
	folder, err := filepath.Abs("../../docs/examples")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	outputOf(t, "snapshot", "--from", filepath.Join(folder, "messy.json.gz")+","+filepath.Join(folder, "messy.csv.gz"), "--out", "snap")
	b := parsed[struct{ Batch *savings.Batch }](t, outputOf(t, "savings", "--trace", "snap", "--format", "json")).Batch
	require.NotNil(t, b)
	require.Greater(t, b.Cores, 100.)
	require.Contains(t, outputOf(t, "savings", "--trace", "snap"), fmt.Sprintf("batch work on what is left, %.0f cores; ", b.Cores))
	outputOf(t, "convert", "usage", "snap", "--out", "snap-by-use")
	require.Contains(t, outputOf(t, typed(b.Command)[1:]...), fmt.Sprintf("%.2f %% of the machines' cpu offered", b.Share))
	outputOf(t, "savings", "--trace", "snap", "--report", "page.html")
	page, err := os.ReadFile("page.html")
	require.NoError(t, err)
	require.Contains(t, string(page), "batch work on what is left")
	b = parsed[struct{ Batch *savings.Batch }](t, outputOf(t, "savings", "--trace", "snap-by-use", "--format", "json")).Batch
	require.Nil(t, b, "its history is not in the trace")
}

// shortUse writes a file of use with so many values of each line.
func shortUse(t *testing.T, from, to string, values int) {
	t.Helper()
	file, err := os.ReadFile(from)
	require.NoError(t, err)
	in, err := gzip.NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	text, err := io.ReadAll(in)
	require.NoError(t, err)
	var packed bytes.Buffer
	out := gzip.NewWriter(&packed)
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		fields := strings.Split(line, ",")
		if i > 0 {
			fields = append(append(fields[:3:3], "-864000", fields[4]), fields[len(fields)-values:]...)
		}
		_, err := out.Write([]byte(strings.Join(fields, ",") + "\n"))
		require.NoError(t, err)
	}
	require.NoError(t, out.Close())
	require.NoError(t, os.WriteFile(to, packed.Bytes(), 0o600))
}

// With another seed the commands print the figures of their lines, too.
func TestSeedIsTyped(t *testing.T) {
	folder, err := filepath.Abs("../../docs/examples")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	outputOf(t, "snapshot", "--from", filepath.Join(folder, "messy.json.gz")+","+filepath.Join(folder, "messy.csv.gz"), "--out", "snap")
	b := parsed[aBill](t, outputOf(t, "savings", "--trace", "snap", "--seed", "7", "--format", "json"))
	shapes := b.Steps[4]
	b.Steps = b.Steps[:3]
	requireTyped(t, &b)
	again := parsed[aBill](t, outputOf(t, append(typed(shapes.Command)[1:], "--format", "json")...))
	require.Equal(t, shapes.Money, again.Steps[4].Money)
}
