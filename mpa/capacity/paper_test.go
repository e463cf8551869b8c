package capacity

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Ten steps by hand over the limits 10, 30, 50. States: A = (10, cpu bin 2), B = (30, cpu
// bin 4), C = (50, cpu bin 4), memory bin 0. α = .5, γ = .9, all actions drawn.
//
//	 1 A  50                                            up
//	 2 B 100  r = 100 ÷  50 = 2    Q(A,up)   = .5 · 2                          = 1        up
//	 3 C  98  r = 1, within 5 %    Q(B,up)   = .5 · 1                          = .5       stay
//	 4 C  98  r = 1                Q(C,stay) = .5 · 1                          = .5       up, clipped
//	 5 C  98  r = 1                Q(C,up)   = .5 (1 + .9 · .5)                = .725     down
//	 6 B 100  r = 1                Q(C,down) = .5 (1 + .9 · .5)                = .725     down
//	 7 A  50  r = .5               Q(B,down) = .5 (.5 + .9 · 1)                = .7       up
//	 8 B 100  r = 1                Q(A,up)   = 1 + .5 (1 + .9 · .7 − 1)        = 1.315    stay
//	 9 B  80  r = .8               Q(B,stay) = .5 (.8 + .9 · .7)               = .715     up
//	10 C  40  r = .4               Q(B,up)   = .5 + .5 (.4 + .9 · .725 − .5)   = .77625
func TestPaperByHand(t *testing.T) {
	const down, stay, up = 0, 1, 2
	actions := []int{up, up, stay, up, down, down, up, stay, up, stay}
	s := Settings{Min: 10, Max: 50, Initial: 10, Grid: []int{10, 30, 50}}
	p := newPaper(s).(*paper)
	p.at = 0
	i := -1
	p.draw = func() (float64, int) { i++; return .999, actions[i] }
	a, b, c := paperState{0, 2, 0}, paperState{1, 4, 0}, paperState{2, 4, 0}
	steps := []struct {
		limit      int
		rate, busy float64
		state      paperState // whose value changes
		action     int
		want       float64
	}{
		{limit: 10, rate: 50, busy: .5},
		{30, 100, 1, a, up, 1},
		{50, 98, 1, b, up, .5},
		{50, 98, 1, c, stay, .5},
		{50, 98, 1, c, up, .725},
		{30, 100, 1, c, down, .725},
		{10, 50, .5, b, down, .7},
		{30, 100, 1, a, up, 1.315},
		{30, 80, 1, b, stay, .715},
		{50, 40, 1, b, up, .77625},
	}
	for i, step := range steps {
		require.Equal(t, step.limit, p.Next(), "step %d", i+1)
		p.Tell(Window{
			Time: time.Unix(int64(30*i), 0), Length: Some(30), Limit: Some(float64(step.limit)), Inside: Some(float64(step.limit)),
			Answered: Some(30 * step.rate), CPU: Some(30 * step.busy * .25), Quota: Some(.25), Memory: Some(10), MemoryLimit: Some(100),
		})
		if i > 0 {
			require.InDelta(t, step.want, p.q[step.state][step.action], 1e-12, "step %d", i+1)
		}
	}
	require.InDelta(t, 1., p.epsilon, 0)
	// After fifty iterations ε falls by .995 each, down to .1.
	p.draw = func() (float64, int) { return 1, 0 } // never random: it is greedy
	for i := len(steps); i < 52; i++ {
		p.Tell(Window{Length: Some(30), Limit: Some(float64(p.Next())), Answered: Some(3000)})
	}
	require.InDelta(t, .995*.995, p.epsilon, 1e-12)
	for range 1000 {
		p.Tell(Window{Length: Some(30), Limit: Some(float64(p.Next())), Answered: Some(3000)})
	}
	require.InDelta(t, .1, p.epsilon, 0)
}

// Of equal actions it stays.
func TestPaperTies(t *testing.T) {
	p := newPaper(Settings{Min: 10, Max: 310, Initial: 10}).(*paper)
	require.Equal(t, paperStay, p.greedy(paperState{}))
	p.q[paperState{}] = [3]float64{1, 0, 1}
	require.Equal(t, 0, p.greedy(paperState{}))
	require.Len(t, p.limits, 16)
	require.Equal(t, 310, p.limits[15])
}
