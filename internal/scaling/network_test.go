package scaling

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/learn/nn"
	"github.com/sigma-scheduler/sigma/mpa/ddpg"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// A network's file is an agent of a simulation; its journal gives the same decisions again,
// and a network of other sizes is refused with file and field.
func TestNetworkIsAnAgent(t *testing.T) {
	folder := t.TempDir()
	write := func(name string, inputs int) string {
		m, err := nn.NewMLP[float32](rand.New(rand.NewPCG(1, 0)), nn.Shape{Sizes: []int{inputs, 8, ddpg.ActionSize}, Hidden: nn.ReLU, Output: nn.Tanh}, 0)
		require.NoError(t, err)
		data, err := m.Encode()
		require.NoError(t, err)
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	good, other := write("good.json", ddpg.StateSize), write("other.json", ddpg.StateSize+4)
	_, err := Agents([]string{other}, "")
	require.ErrorContains(t, err, other+": ")
	require.ErrorContains(t, err, "sizes")
	_, err = Weights([]string{other})
	require.ErrorContains(t, err, other+": ")

	list, err := Agents([]string{good}, "")
	require.NoError(t, err)
	generator, err := sim.NewGenerator("train", "")
	require.NoError(t, err)
	s, err := generator.Generate(7)
	require.NoError(t, err)
	s.Hours, s.Warmup = .5, 0
	_, err = list[0].RunLogged(t.Context(), s.Config(7), folder)
	require.NoError(t, err)
	weights, err := Weights([]string{good})
	require.NoError(t, err)
	v, err := journal.ReplayFile(filepath.Join(folder, "generated-7-good-7.jsonl"), weights)
	require.NoError(t, err)
	assert.Nil(t, v.First)
	assert.Equal(t, 120, v.Decisions)
	assert.Zero(t, v.Recorded, "the agent is known")
}
