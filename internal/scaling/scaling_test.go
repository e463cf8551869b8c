package scaling

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/sim"
	"github.com/sigma-scheduler/sigma/swarm"
)

func small() Training {
	return Training{Method: "random", Seed: 3, First: 21, Scenarios: 5, Evaluations: 3, Particles: 2, Workers: 2}
}

// The same settings give the same bytes for any number of workers, and after an interrupt.
func TestTrainingIsReproducible(t *testing.T) {
	write := func(tr *Trained) string {
		var b bytes.Buffer
		path := filepath.Join(t.TempDir(), "found.yaml")
		require.NoError(t, tr.Write(&b, path))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		p, err := learned.Parse(path, text)
		require.NoError(t, err)
		assert.Equal(t, "found", p.Name)
		assert.True(t, p.Provenance.Seen(25) && !p.Provenance.Seen(26))
		return string(text)
	}
	one := small()
	one.Workers = 1
	first, err := one.Run(t.Context())
	require.NoError(t, err)

	stopped := small()
	stopped.Checkpoint = t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	stopped.Progress = func(swarm.Stats) { cancel() }
	best, err := stopped.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NotNil(t, best, "the best so far")
	stopped.Progress = nil
	resumed, err := stopped.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, write(first), write(resumed))
	stopped.Seed++
	_, err = stopped.Run(t.Context())
	require.ErrorIs(t, err, swarm.ErrSettings)
	require.ErrorContains(t, err, ": seed is 3 in the file, 4 now")
}

func TestTrainingRefuses(t *testing.T) {
	tr := small()
	tr.First = sim.FirstTestSeed - 2
	require.ErrorContains(t, tr.Check(), "seeds from 900000 up are for tests")
	tr = small()
	tr.Scenarios = 1
	_, err := tr.Run(t.Context())
	require.ErrorContains(t, err, "want more")
	tr = small()
	tr.Method = "gradient"
	_, err = tr.Run(t.Context())
	require.ErrorContains(t, err, `unknown method "gradient"`)
}

func TestCompareGenerated(t *testing.T) {
	list, err := Agents([]string{"hpa+vpa", "learned"}, "")
	require.NoError(t, err)
	g := Generated{Side: "test", Seed: sim.FirstTestSeed + 5000, Count: 2, Agents: list, Workers: 2}
	c, err := g.Compare(t.Context())
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, c.Write(&b, "json"))
	var back Comparison
	require.NoError(t, json.Unmarshal(b.Bytes(), &back))
	assert.Equal(t, *c, back)
	assert.InDelta(t, 1, c.Agents[0].Ratio, 1e-12)
	assert.Equal(t, learned.General().Digest, c.Agents[1].Digest)
	require.NoError(t, c.Write(&b, "table"))
	g.Side = "train"
	_, err = g.Compare(t.Context())
	require.ErrorContains(t, err, "is not of the train side")
	// A policy does not judge itself.
	p := learned.Policy{Provenance: learned.Provenance{FirstScenario: 40, Scenarios: 10}}
	g.Seed, g.Agents = 49, []Agent{{Name: "mine", Policy: &p}}
	_, err = g.Compare(t.Context())
	require.ErrorContains(t, err, "policy mine was trained on scenario 49")
}

func TestAgents(t *testing.T) {
	_, err := Agents([]string{"hpa", "hpa"}, "")
	require.EqualError(t, err, "hpa is listed twice")
	_, err = Agents([]string{"hap"}, "")
	require.ErrorContains(t, err, `unknown agent "hap"`)
	path := filepath.Join(t.TempDir(), "p.yaml")
	require.NoError(t, os.WriteFile(path, []byte("kind: X\n"), 0o600))
	_, err = Agents([]string{path}, "")
	require.ErrorContains(t, err, path+": apiVersion")
	_, err = Agents([]string{"foresight"}, path)
	require.ErrorContains(t, err, path+": apiVersion")
	require.NoError(t, os.WriteFile(path, learned.GeneralFile(), 0o600))
	list, err := Agents([]string{path, "learned"}, "")
	require.NoError(t, err)
	_, err = Agents([]string{path, "hpa"}, path)
	require.ErrorContains(t, err, "of which none is listed")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = Weights([]string{path})
	require.ErrorContains(t, err, path+": the file is empty")
	assert.Equal(t, list[0].Policy.Digest, list[1].Policy.Digest)
}

// A policy goes through its phases in the simulator, and the journal gives all of it again.
func TestPhasesInJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.yaml")
	require.NoError(t, os.WriteFile(path, learned.GeneralFile(), 0o600))
	list, err := Agents([]string{"learned", "learned@OfflineTraining", path + "@Serving"}, "")
	require.NoError(t, err)
	assert.Equal(t, []mpa.LearningPhase{"", mpa.OfflineTraining, mpa.Serving}, []mpa.LearningPhase{list[0].Begin, list[1].Begin, list[2].Begin})
	g, err := sim.NewGenerator("train", "")
	require.NoError(t, err)
	s, err := g.Generate(310)
	require.NoError(t, err)
	dir := t.TempDir()
	for i := range list {
		_, err := list[i].RunLogged(t.Context(), s.Config(310), dir)
		require.NoError(t, err)
	}
	weights, err := Weights(nil)
	require.NoError(t, err)
	for _, name := range []string{"learned", "learned@OfflineTraining", "p@Serving"} {
		v, err := journal.ReplayFile(filepath.Join(dir, s.App.Name+"-"+name+"-310.jsonl"), weights)
		require.NoError(t, err)
		assert.Nil(t, v.First)
		assert.Equal(t, 720, v.Equal, name)
	}
	for _, name := range []string{"hpa@Serving", "foresight@Serving", "learned@Later", "oracle@OfflineTraining"} {
		_, err := Agents([]string{name}, "")
		require.ErrorContains(t, err, "unknown agent \""+name+"\"")
		require.ErrorContains(t, err, "with @ and one of [OfflineTraining OnlineTraining Serving]")
	}
}

// What trains names no other side than train: neither the word nor a profile, family or
// trace of the test side.
func TestTrainingKnowsTheTrainSideOnly(t *testing.T) {
	text, err := os.ReadFile("train.go")
	require.NoError(t, err)
	source := string(text)
	assert.Equal(t, 1, strings.Count(source, "sim.NewGenerator("))
	assert.Contains(t, source, `sim.NewGenerator("train", t.Traces)`)
	assert.NotContains(t, source, "sim.Scenarios(")
	train, err := sim.NewGenerator("train", "")
	require.NoError(t, err)
	seen := map[string]bool{}
	for seed := range uint64(200) {
		s, err := train.Generate(seed)
		require.NoError(t, err)
		seen[s.Name] = true
		for _, g := range s.App.Segments {
			seen[g.Name] = true
		}
	}
	for _, name := range heldFamilies {
		assert.True(t, seen[name] || name == "azure-llm-code", "%s is not of the train side", name)
	}
	assert.True(t, seen[heldProfile])
	// Whatever trains, tunes or is tuned names nothing of the test side either.
	test, err := sim.NewGenerator("test", "")
	require.NoError(t, err)
	forbidden := map[string]bool{`"test"`: true, "nasa": true, "twitter": true, "azure-llm-conv": true, "azure_llm_2023_conv": true}
	for seed := range uint64(200) {
		s, err := test.Generate(sim.FirstTestSeed + seed)
		require.NoError(t, err)
		forbidden[`"`+s.Name+`"`] = true
		for _, g := range s.App.Segments {
			forbidden[`"`+g.Name+`"`] = true
		}
	}
	require.Len(t, forbidden, 5+5+8)
	var files []string
	for _, pattern := range []string{"../retrain/*.go", "../../mpa/learned/*", "../../mpa/phases/*.go"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		files = append(files, found...)
	}
	seeds := regexp.MustCompile(`\b9\d\d_?\d{3}\b`)
	for _, name := range append(files, "train.go", "journaled.go", "forecast_test.go") {
		if strings.HasSuffix(name, "_test.go") && strings.Contains(name, "/") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for word := range forbidden {
			assert.NotContains(t, string(text), word, name)
		}
		assert.LessOrEqual(t, len(seeds.FindAllString(string(text), -1)), map[string]int{"../../mpa/learned/policy.go": 1}[name], name)
	}
	// FirstTestSeed of a policy is that of the generator.
	assert.Equal(t, sim.FirstTestSeed, learned.FirstTestSeed)
}

// A journal of a cluster names the policy as the cluster has it, without the file's comments.
func TestWeightsOfACluster(t *testing.T) {
	text := append([]byte("# by hand\n"), learned.GeneralFile()...)
	file := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), "kappa: .7", "kappa: .70", 1)), 0o600))
	shipped, err := Weights(nil)
	require.NoError(t, err)
	both, err := Weights([]string{file})
	require.NoError(t, err)
	canonical, err := learned.General().Marshal()
	require.NoError(t, err)
	require.Contains(t, shipped, agents.Weights{}.Add(learned.GeneralFile()))
	require.Contains(t, shipped, agents.Weights{}.Add(canonical))
	require.Len(t, both, 3, "in a cluster the two are the same")
}
