package scaling

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// journals simulates a workload for some hours, writes its journal to a folder, and returns
// the scenario.
func journals(t *testing.T, folder string, hours float64) sim.Scenario {
	t.Helper()
	g, err := sim.NewGenerator("train", "")
	require.NoError(t, err)
	s, err := g.Generate(304)
	require.NoError(t, err)
	load := s.Load
	for n := len(load.PerSec); float64(len(load.PerSec))*load.Step < hours*3600; {
		load.PerSec = append(load.PerSec, load.PerSec[len(load.PerSec)-n])
	}
	a := Agent{Name: "hpa+vpa"}
	_, err = a.RunLogged(t.Context(), sim.Config{App: s.App, Load: load, Seconds: hours * 3600, Seed: 304, Guards: mpa.DefaultGuards(), Site: sim.DefaultSite()}, folder)
	require.NoError(t, err)
	return s
}

// The pieces of a journal are like the workload that wrote it.
func TestReadJournals(t *testing.T) {
	folder := t.TempDir()
	s := journals(t, folder, 9.1)
	j, err := readJournals(folder)
	require.NoError(t, err)
	require.Len(t, j.search.scenarios, 2)
	require.Len(t, j.later.scenarios, 1)
	for _, piece := range append(j.search.scenarios, j.later.scenarios...) {
		require.InEpsilon(t, s.App.CPUPerRequest(), piece.App.CPUPerRequest(), .05)
		require.InEpsilon(t, s.Load.Peak(), piece.Load.Peak(), .25)
		require.Equal(t, s.App.Target.SLO, piece.App.Target.SLO)
	}
}

func TestReadJournalsRefuses(t *testing.T) {
	empty := t.TempDir()
	_, err := readJournals(empty)
	require.ErrorContains(t, err, "there is no journal")

	folder := t.TempDir()
	journals(t, folder, 4)
	_, err = readJournals(folder)
	require.ErrorContains(t, err, "no workload has two pieces of 3h0m0s")
	require.ErrorContains(t, err, "1 of 1 pieces can be simulated")

	path := filepath.Join(folder, "generated-304-hpa+vpa-304.jsonl")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(data), "\n")
	decisions := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.HasPrefix(l, `{"kind":"decision"`) })
	write := func(lines ...string) {
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600))
	}
	write(lines[0], decisions[9], decisions[4])
	_, err = readJournals(folder)
	require.ErrorContains(t, err, path+":3: decision.observation.time")
	write(lines[0], lines[1], strings.Replace(lines[0], "simulated/generated-304", "other/web", 1))
	_, err = readJournals(folder)
	require.ErrorContains(t, err, path+":3: start.object is other/web, before it is simulated/generated-304")
	write(lines[0], "garbage\n", lines[1])
	_, err = readJournals(folder)
	require.ErrorContains(t, err, path+":2")
}

// Nothing is written that is not better than what serves on the last pieces of the journals.
func TestTrainingOnJournals(t *testing.T) {
	folder := t.TempDir()
	journals(t, folder, 6.1)
	tr := small()
	tr.Journals, tr.Evaluations = folder, 4
	found, err := tr.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, found.Policy.Provenance.Journaled)
	require.Len(t, found.Own.Found.Runs, 1)

	own, err := tr.journals(t.Context())
	require.NoError(t, err)
	good, poor := learned.General().Values, learned.General().Values
	for i, n := range learned.Numbers {
		if n.Name == "spare" || n.Name == "betaLeast" {
			poor[i] = n.Max
		}
	}
	var b bytes.Buffer
	for _, c := range []struct{ serves, found learned.Values }{{poor, good}, {good, poor}, {good, good}} {
		out := filepath.Join(t.TempDir(), "policy.yaml")
		found.Policy.Values = c.found
		require.NoError(t, found.compareOwn(t.Context(), own, c.serves, 1))
		if err := found.Write(&b, out); c.found != good || c.serves != poor {
			require.ErrorIs(t, err, ErrNotBetter)
			require.NoFileExists(t, out)
			continue
		} else if err != nil {
			t.Fatal(err, b.String())
		}
		require.Contains(t, b.String(), "searched on 1 pieces of journals as well, 0 were left out; on the 1 last ones:")
		written, err := os.ReadFile(out)
		require.NoError(t, err)
		p, err := learned.Parse(out, written)
		require.NoError(t, err)
		require.Equal(t, 1, p.Provenance.Journaled)
	}
	tr.Serving = filepath.Join(folder, "missing.yaml")
	_, err = tr.Run(t.Context())
	require.ErrorIs(t, err, os.ErrNotExist)
}
