package aware

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/lab/records"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// The same page and networks come out whatever the number of workers, and nothing is
// written beside them.
func TestPageIsReproducible(t *testing.T) {
	measured := func(workers int) (files []string) {
		folder := t.TempDir()
		x := &experiments{
			size: size{
				bootApps: 1, episodes: 12, retraining: 1, served: 1, poolApps: 2, poolEpisodes: 4, poolWatch: 2,
				unseenApps: 2, adaptEpisodes: 2, adaptEvery: 1, evaluations: 1, embeddingUpdates: 5, scenarios: 1, hours: .55,
			},
			cfg: Config{Docs: folder, Out: folder, Workers: workers, Version: "v"}, policy: learned.General(),
		}
		if testing.Short() { // for the race detector
			x.bootApps, x.episodes, x.embeddingUpdates = 2, 4, 1
		}
		require.NoError(t, x.run(t.Context()))
		for _, name := range []string{PageName, "aware/ddpg-paper.json", "aware/ddpg-promise.json", "aware/ddpg-bootstrapped.json"} {
			text, err := os.ReadFile(filepath.Join(folder, name))
			require.NoError(t, err)
			files = append(files, string(text))
		}
		return files
	}
	first := measured(3)
	if !testing.Short() {
		require.Equal(t, first, measured(1))
	}
	assert.NotContains(t, first[0], "NaN")
	tables, err := records.ParseTables(first[0])
	require.NoError(t, err)
	assert.Len(t, tables, 7)
	assert.NotEqual(t, first[1], first[2])
}

// While the student acts, the gate looks at what came of it: the rules act again when it
// cost more than 1.1 times theirs, or lost more than they did.
func TestGateCloses(t *testing.T) {
	list, err := (&experiments{}).applications(bootFirst, 1, false)
	require.NoError(t, err)
	ruled := sim.Result{Requests: 1e6, Violations: 100, CoreHours: 10}
	for _, c := range []struct {
		name  string
		run   sim.Result
		stays bool
	}{
		{"as the rules", ruled, true},
		{"a little dearer", sim.Result{Requests: 1e6, Violations: 100, CoreHours: 10.9}, true},
		{"too dear", sim.Result{Requests: 1e6, Violations: 100, CoreHours: 11.1}, false},
		{"more lost, within the noise", sim.Result{Requests: 1e6, Violations: 150, CoreHours: 8}, true},
		{"more lost", sim.Result{Requests: 1e6, Violations: 2000, CoreHours: 8}, false},
	} {
		a := *list[0]
		a.scenario.App.Target.SLO.Percentile = 99
		tr := &training{way: ways[2], app: &a, acts: true, since: 11}
		for range 12 {
			a.rules, tr.runs = append(a.rules, ruled), append(tr.runs, c.run)
		}
		require.NoError(t, tr.gate(t.Context(), 12))
		assert.Equal(t, c.stays, tr.acts, c.name)
	}
}

// What trains or tunes reads nothing of the test side: no file but that of the judging
// names the side, and no other draws scenarios; seeds of tests are refused by the generator.
func TestTrainersKnowTheTrainSideOnly(t *testing.T) {
	test, err := sim.NewGenerator("test", "")
	require.NoError(t, err)
	forbidden := map[string]bool{`"test"`: true, "sim.Scenarios(": true, "FirstTestSeed": true}
	for seed := range uint64(200) {
		s, err := test.Generate(sim.FirstTestSeed + seed)
		require.NoError(t, err)
		forbidden[`"`+s.Name+`"`] = true
		for _, g := range s.App.Segments {
			forbidden[`"`+g.Name+`"`] = true
		}
	}
	for _, trace := range []string{"nasa", "twitter", "azure-llm-conv", "azure_llm_2023_conv"} {
		forbidden[trace] = true
	}
	require.Greater(t, len(forbidden), 15)
	large := regexp.MustCompile(`\b9\d\d_?\d{3}\b`)
	generators := 0
	for _, folder := range []string{".", "../../../mpa/ddpg", "../../../internal/learn/rl", "../../../internal/learn/nn"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			if name == "judge.go" {
				for _, trains := range []string{"learn/rl", "learn/nn", "Student", "Observe(", "newTraining", ".train("} {
					assert.NotContains(t, string(text), trains, "the file that judges")
				}
				continue
			}
			generators += strings.Count(string(text), "NewGenerator(")
			assert.Equal(t, strings.Count(string(text), "NewGenerator("), strings.Count(string(text), `sim.NewGenerator("train", "")`), name)
			assert.NotContains(t, string(text), "scaling.Generated", name)
			assert.Empty(t, large.FindAllString(string(text), -1), "%s: seeds from %d up are for tests", name, uint64(sim.FirstTestSeed))
			for word := range forbidden {
				assert.NotContains(t, string(text), word, name)
			}
		}
	}
	assert.Equal(t, 1, generators)
	_, err = (&experiments{}).applications(sim.FirstTestSeed, 1, false)
	require.ErrorContains(t, err, "not of the train side")
	for _, first := range []uint64{bootFirst, poolFirst, unseenFirst} {
		list, err := (&experiments{size: full}).applications(first, 1, first == unseenFirst)
		require.NoError(t, err)
		cfg, err := list[0].episode(evaluated + full.evaluations)
		require.NoError(t, err)
		assert.Less(t, cfg.Seed, uint64(sim.FirstTestSeed))
	}
	_, err = scaling.Agents([]string{"ddpg"}, "")
	require.ErrorContains(t, err, "files of policies and networks", "a network is named by its file")
}

// Profiles that are held out are in no application of the pool, and in all unseen ones.
func TestUnseenApplicationsAreUnseen(t *testing.T) {
	for _, unseen := range []bool{false, true} {
		list, err := (&experiments{}).applications(poolFirst, 20, unseen)
		require.NoError(t, err)
		for _, a := range list {
			held := false
			for _, g := range a.scenario.App.Segments {
				held = held || g.Name == heldProfiles[0] || g.Name == heldProfiles[1]
			}
			assert.Equal(t, unseen, held, a.seed)
		}
	}
}
