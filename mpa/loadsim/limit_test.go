package loadsim

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// service of requests that compute 10 ms and wait 40 ms, each exactly.
func exact(change func(s *Service)) *Service {
	s := &Service{Segments: []Segment{{CPU: Dist{Mean: .01}, Wait: Dist{Mean: .04}}}, Queue: -1, Parallelism: 100}
	change(s)
	return s
}

func engine(t *testing.T, s *Service, rate float64) *Engine {
	t.Helper()
	require.NoError(t, s.Prepare())
	return New(s, 1, func(float64) (float64, float64) { return rate, math.Inf(1) })
}

// A limit that changes binds at once: as soon as those above it have ended, and for those
// that wait when it is raised.
func TestLimitChanges(t *testing.T) {
	for name, change := range map[string]func(s *Service){
		"a queue in the pod":      func(s *Service) { s.Workers = 8 },
		"a queue before all pods": func(s *Service) { s.Workers, s.Front = 8, 1e6 },
	} {
		t.Run(name, func(t *testing.T) {
			s := exact(change)
			e := engine(t, s, 1000)
			pod := s.NewPod(0)
			slot := e.Open(&pod)
			for i, limit := range []int{8, 2, 5, 1, 20} {
				e.Limit(slot, limit)
				if e.Now() > 0 {
					assert.GreaterOrEqual(t, pod.Inside(), min(limit, 8), "those that wait go in at once")
				}
				e.Run(e.Now() + .1)
				before := e.Counters()
				for e.Now() < float64(i)+.9 {
					e.Run(e.Now() + .001)
					assert.Equal(t, limit, pod.Inside())
				}
				now := e.Counters()
				assert.InDelta(t, float64(limit)/.05, float64(now.Served-before.Served)/.8, float64(limit)/.05*.02+2)
				e.Run(float64(i) + 1)
			}
			c := e.Counters()
			assert.Equal(t, c.Arrived, c.Served+int64(pod.Inside()+pod.Waiting()+e.front.len()), "none is lost")
		})
	}
}

// Requests wait before all pods until one begins, and beyond the queue they are refused.
func TestFront(t *testing.T) {
	s := exact(func(s *Service) { s.Workers, s.Front = 2, 10 })
	e := engine(t, s, 100)
	e.Run(1)
	c := e.Counters()
	assert.Equal(t, c.Arrived-10, c.Refused)
	assert.Zero(t, c.Served)
	a, b := s.NewPod(0), s.NewPod(0)
	slot := e.Open(&a)
	assert.Equal(t, 2, a.Inside())
	e.Open(&b)
	assert.Equal(t, 2, b.Inside())
	e.Close(slot)
	e.Run(2)
	assert.Zero(t, a.Inside(), "a pod that is closed gets no more")
	assert.Equal(t, 2, b.Inside())
	assert.InDelta(t, 2/.05, float64(b.Served()), 2)
	e.Kill(1)
	e.Forget(1)
	now := e.Counters()
	assert.Equal(t, int64(2), now.Lost)
	assert.Equal(t, now.Arrived, now.Served+now.Failed+int64(e.front.len()))
}

// Clients that gave up while they waited are not let in.
func TestFrontTimeout(t *testing.T) {
	s := exact(func(s *Service) { s.Workers, s.Front, s.Timeout = 1, 1000, .5 })
	e := engine(t, s, 100)
	pod := s.NewPod(0)
	e.Run(2)
	e.Open(&pod)
	e.Run(2.04)
	c := e.Counters()
	assert.InDelta(t, 150, c.Failed, 30)
	assert.InDelta(t, .5*50+1.5*50, c.WaitingSeconds, 15, "who has given up does not wait")
	e.Run(10)
	c = e.Counters()
	assert.Equal(t, e.waiting, float64(c.Arrived-c.Served-c.Failed-int64(pod.Inside())))
}

// Little's law, exactly: with n clients that never pause n are inside, or wait.
func TestClosedLoop(t *testing.T) {
	s := exact(func(s *Service) { s.Clients, s.Workers, s.Queue = 7, 5, 10 })
	e := engine(t, s, 0)
	pod := s.NewPod(0)
	e.Open(&pod)
	e.Run(100)
	c := e.Counters()
	assert.InDelta(t, 500, c.InsideSeconds, .1)
	assert.InDelta(t, 200, c.WaitingSeconds, .1)
	assert.InDelta(t, 100*5/.05, c.Served, 10)
	assert.InDelta(t, 7./5*.05, e.All.Mean(), .002)

	// A pause of 0.1 s makes a round of 0.15 s.
	s = exact(func(s *Service) { s.Clients, s.Think = 7, Dist{Mean: .1, CV: 1} })
	e = engine(t, s, 0)
	pod = s.NewPod(0)
	e.Open(&pod)
	e.Run(1000)
	assert.InEpsilon(t, 7000/.15, e.Counters().Served, .02)

	// Without a pod they try again, and not for ever at once.
	s = exact(func(s *Service) { s.Clients = 7 })
	e = engine(t, s, 0)
	e.Run(10)
	assert.InEpsilon(t, 700, e.Counters().Failed, .1)
}

// D (1 + κ (n − 1)) of cpu is spent with n inside at all times.
func TestContention(t *testing.T) {
	s := exact(func(s *Service) { s.Clients, s.Contention, s.Segments[0].Wait = 6, .1, Dist{} })
	e := engine(t, s, 0)
	pod := s.NewPod(0)
	e.Open(&pod)
	e.Run(100)
	assert.InEpsilon(t, .01*1.5, pod.Busy()/float64(e.Counters().Served), .01)
}
