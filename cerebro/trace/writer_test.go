package trace

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/durable/killtest"
)

func TestRoundTrip(t *testing.T) {
	for _, name := range []string{"small", "devices"} {
		t.Run(name, func(t *testing.T) {
			tr, err := Load(filepath.Join("testdata", name))
			require.NoError(t, err)
			requireRoundTrip(t, tr)

			dir := filepath.Join(t.TempDir(), "deep", name)
			require.NoError(t, tr.Write(dir))
			first := folder(t, dir)
			again, err := Load(dir)
			require.NoError(t, err)
			require.NoError(t, again.Write(dir))
			require.Equal(t, first, folder(t, dir))
		})
	}
}

// folder is the contents of all files in a folder.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	texts := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		texts[e.Name()] = string(text)
	}
	return texts
}

// The digests are those that a shell computes by the format:
//
//	for f in apps.csv machines.csv rules.csv; do printf '%s\0%s\0' $f $(wc -c <$f); cat $f; done | sha256sum
func TestDigests(t *testing.T) {
	tr, err := Load(filepath.Join("testdata", "small"))
	require.NoError(t, err)
	instance, whole, err := tr.Digests()
	require.NoError(t, err)
	require.Equal(t, "sha256:565215624d7a4ab2ee78b077688ab8ee79442756225c831a306f22aadfe683e8", instance)
	require.Equal(t, "sha256:cabf6d6f69cdea1cdfbf412a109a29f2f327e57f1c8704427dbc5a55d5ffc1f4", whole)

	// What is asked of the fleet does not change the fleet.
	tr.Events = tr.Events[:1]
	tr.Description = "other"
	other, otherWhole, err := tr.Digests()
	require.NoError(t, err)
	require.Equal(t, instance, other)
	require.NotEqual(t, whole, otherWhole)
	tr.Instance.Apps[0].Demand[0]++
	other, _, err = tr.Digests()
	require.NoError(t, err)
	require.NotEqual(t, instance, other)
}

func TestWriteReplaces(t *testing.T) {
	tr, err := Load(filepath.Join("testdata", "small"))
	require.NoError(t, err)
	parent := t.TempDir()
	dir := filepath.Join(parent, "x")

	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, tr.Write(dir), "an empty folder")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("mine"), 0o644))
	require.NoError(t, tr.Write(dir+"/"), "a trace")
	require.Equal(t, "mine", folder(t, dir)["README.md"])

	require.NoError(t, os.WriteFile(filepath.Join(dir, "thesis.tex"), []byte("mine"), 0o644))
	err = tr.Write(dir)
	require.ErrorContains(t, err, "the folder is not empty and not a trace: thesis.tex: unknown file")
	require.Equal(t, "mine", folder(t, dir)["thesis.tex"])

	other := filepath.Join(parent, "other")
	require.NoError(t, os.Mkdir(other, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(other, ".git"), nil, 0o644))
	require.ErrorContains(t, tr.Write(other), "not a trace: apps.csv: missing file")
	require.ErrorContains(t, tr.Write(filepath.Join(dir, "thesis.tex")), "not a folder")

	require.NoError(t, os.Symlink(dir, filepath.Join(parent, "link")))
	require.NoError(t, os.Remove(filepath.Join(dir, "thesis.tex")))
	require.NoError(t, tr.Write(filepath.Join(parent, "link")))
	info, err := os.Lstat(filepath.Join(parent, "link"))
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)

	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Len(t, entries, 3, "nothing is left beside them")
}

// TestWriteKilledAtEachStep: the folder holds the old trace or the new one, and what
// the user has put there comes through.
func TestWriteKilledAtEachStep(t *testing.T) {
	load := func(name string) *Trace {
		tr, err := Load(filepath.Join("testdata", name))
		require.NoError(t, err)
		return tr
	}
	digest := func(tr *Trace) string {
		_, whole, err := tr.Digests()
		require.NoError(t, err)
		return whole
	}
	old, fresh := load("small"), load("devices")
	seen := map[string]bool{}
	killtest.EachStep(t,
		func(dir string) {
			require.NoError(t, old.Write(filepath.Join(dir, "x")))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "x", "README.md"), []byte("mine"), 0o644))
		},
		func(dir string) error { return fresh.Write(filepath.Join(dir, "x")) },
		func(dir, next string) {
			got, err := Load(filepath.Join(dir, "x"))
			require.NoError(t, err, "killed before: %s", next)
			require.Contains(t, []string{digest(old), digest(fresh)}, digest(got), "killed before: %s", next)
			seen[digest(got)] = true
			require.NoError(t, got.Write(filepath.Join(dir, "x")))
			require.Equal(t, "mine", folder(t, filepath.Join(dir, "x"))["README.md"], "killed before: %s", next)
			require.Len(t, folder(t, filepath.Join(dir, "x")), len(mustContents(t, got))+1)
		})
	require.Len(t, seen, 2)
}

func mustContents(t *testing.T, tr *Trace) []content {
	t.Helper()
	contents, err := tr.readable()
	require.NoError(t, err)
	return contents
}

// A trace that the reader would refuse is not written.
func TestWriteRefuses(t *testing.T) {
	for want, change := range map[string]func(*Trace){
		`events.csv:2: time "NaN"`:     func(tr *Trace) { tr.Events[0].Time = math.NaN() },
		`events.csv:2: count "0"`:      func(tr *Trace) { tr.Requests[1].Count = 0 },
		`apps.csv:2: cpu "-1"`:         func(tr *Trace) { tr.Instance.Apps[0].Demand[0] = -1000 },
		`machines.csv:3: cost "-1"`:    func(tr *Trace) { tr.Instance.Machines[1].Cost = -1 },
		`rules.csv:2: other "web"`:     func(tr *Trace) { tr.Instance.Rules[0].B = tr.Instance.Rules[0].A },
		`trace.yaml:3: dimensions: ""`: func(tr *Trace) { tr.Instance.Dimensions[0].Name = "" },
	} {
		tr, err := Load(filepath.Join("testdata", "small"))
		require.NoError(t, err)
		change(tr)
		dir := filepath.Join(t.TempDir(), "x")
		require.ErrorContains(t, tr.Write(dir), want)
		require.NoDirExists(t, dir)
	}
}
