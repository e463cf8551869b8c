package rl

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/learn/nn"
)

// variants are DDPG and TD3 with every option, small enough that the buffer wraps.
func variants() map[string]Config {
	paper := AWARE(3, 2, 5)
	paper.Capacity, paper.Hidden, paper.Batch = 150, []int{12, 12}, 16
	all := paper
	all.Twin, all.Steps, all.Imitation = true, 3, .5
	return map[string]Config{"paper": paper, "all options": all}
}

// run takes so many steps of a made-up environment, from step on.
func run(t testing.TB, d *DDPG, from, steps int) {
	t.Helper()
	for i := from; i < from+steps; i++ {
		rng := rand.New(rand.NewPCG(3, uint64(i)))
		tr := randomTransition(rng, d.config, i)
		d.Explore(tr.State, tr.Action)
		require.NoError(t, d.Observe(tr))
		_, err := d.Update()
		require.NoError(t, err)
	}
}

func digest(data string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(data))) }

func encode(t testing.TB, d *DDPG) string {
	t.Helper()
	data, err := d.Encode()
	require.NoError(t, err)
	return string(data)
}

// A training that is cut, at any point, and goes on from its file gives the same bytes as
// one in one go.
func TestResume(t *testing.T) {
	const steps = 260
	for name, c := range variants() {
		t.Run(name, func(t *testing.T) {
			whole, err := New(c)
			require.NoError(t, err)
			run(t, whole, 0, steps)
			want := encode(t, whole)
			for _, cut := range []int{0, 1, 2, 40, 71, 100, 149, 150, 151, 153, 200, 259} {
				first, err := New(c)
				require.NoError(t, err)
				run(t, first, 0, cut)
				second, err := Decode("training.json", []byte(encode(t, first)))
				require.NoError(t, err)
				require.Equal(t, encode(t, first), encode(t, second))
				run(t, second, cut, steps-cut)
				require.Equal(t, digest(want), digest(encode(t, second)), "cut at %d", cut)
			}
			c.Seed++
			other, err := New(c)
			require.NoError(t, err)
			run(t, other, 0, steps)
			a, err := whole.Actor().Encode()
			require.NoError(t, err)
			b, err := other.Actor().Encode()
			require.NoError(t, err)
			require.NotEqual(t, a, b, "another seed")
		})
	}
}

func TestRefusedFiles(t *testing.T) {
	c := variants()["all options"]
	d, err := New(c)
	require.NoError(t, err)
	run(t, d, 0, 200)
	data := encode(t, d)
	for _, cut := range []int{0, 1, 100, len(data) / 2, len(data) - 3} {
		_, err := Decode("training.json", []byte(data[:cut]))
		require.EqualError(t, err, "training.json:1: the file is cut off")
	}
	_, err = Decode("training.json", []byte(strings.Replace(data, `"seen":200`, `"seen":201`, 1)))
	require.ErrorContains(t, err, "training.json: digest: ")

	var good training
	require.NoError(t, nn.Unseal("", []byte(data), format, &good))
	few := nn.EncodeFloats([]float32{1})
	for want, change := range map[string]func(*training){
		"config.discount: 2, want 0 to 1":           func(s *training) { s.Config.Discount = 2 },
		"config: rl: hidden: nn: sizes[1]: -1":      func(s *training) { s.Config.Hidden = []int{-1} },
		"actor.network: ":                           func(s *training) { s.Config.Hidden = []int{13, 12} },
		"seen and updates: -1 and ":                 func(s *training) { s.Seen = -1 },
		"seen and updates: 200 and -1":              func(s *training) { s.Updates = -1 },
		"random: illegal base64":                    func(s *training) { s.Random = "?" },
		"random: invalid PCG encoding":              func(s *training) { s.Random = "" },
		"noise: 4 bytes, want 16 for 2 numbers":     func(s *training) { s.Noise = few },
		"actor.network: 4 bytes, want ":             func(s *training) { s.Actor.Network = few },
		"actor.target: 4 bytes, want ":              func(s *training) { s.Actor.Target = few },
		"actor.adam.mean: 4 bytes, want ":           func(s *training) { s.Actor.Adam.Mean = few },
		"critics: 1, want 2":                        func(s *training) { s.Critics = s.Critics[:1] },
		"critics[1].network: 4 bytes":               func(s *training) { s.Critics[1].Network = few },
		"replay.rows: 151, want 0 to 150":           func(s *training) { s.Replay.Rows = 151 },
		"replay.both: 3000 bytes, want 2980":        func(s *training) { s.Replay.Rows, s.Oldest = 149, 0 },
		"replay.reward: 4 bytes, want 600":          func(s *training) { s.Replay.Reward = few },
		"replay.demonstrated: row 150 of 150":       func(s *training) { s.Replay.Demonstrated = []int{150} },
		"window.rows: 3, want 0 to 2":               func(s *training) { s.Window.Rows = 3 },
		"window.discount: 12 bytes":                 func(s *training) { s.Window.Discount = nn.EncodeFloats(make([]float32, 3)) },
		"oldest: 150 of 150 rows with room for 150": func(s *training) { s.Oldest = 150 },
		"replay.next: number 0 is NaN":              func(s *training) { s.Replay.Next = nn.EncodeFloats(notNumbers(150 * 3)) },
	} {
		s := good
		s.Critics = append([]learnerState(nil), good.Critics...)
		change(&s)
		bad, err := nn.Seal(format, s)
		require.NoError(t, err)
		_, err = Decode("training.json", bad)
		require.ErrorContains(t, err, "training.json: "+want)
	}
}

func notNumbers(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(math.NaN())
	}
	return out
}
