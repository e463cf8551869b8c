package updater

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/knative"
)

// restart replaces the leaders: the new one knows what is written and nothing else.
func (s *knativeSite) restart() { s.leaders = []*knatives{s.leader()} }

// once lets the next write of an updater do something else.
func (s *knativeSite) once(f func(next func() error) error) {
	before := s.update
	s.update = func(next func() error) error {
		s.update = before
		return f(next)
	}
}

// canary steps until one is under way and ready.
func (s *knativeSite) canary() {
	s.phase(knative.Canary)
	s.until(func() bool { return s.state().Phase != knative.Canary || s.isOurs(s.ready()) })
}

func setLimit(n int64) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, n, "spec", "template", "spec", "containerConcurrency")
	}
}

func setTraffic(list ...any) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) { _ = unstructured.SetNestedSlice(u.Object, list, "spec", "traffic") }
}

var latest = map[string]any{"latestRevision": true, "percent": int64(100)}

var pinned = []knative.Traffic{{Revision: "web-00001", Percent: 100}}

type knativeFault struct {
	name string
	do   func(s *knativeSite)
	// want at the end, besides what always counts; the phases that it may end with, and the traffic.
	phases  []knative.Phase
	traffic []knative.Traffic
	check   func(t *testing.T, s *knativeSite)
}

// knativeFaults strike at a moment that each round draws, before the canary or during it.
var knativeFaults = []knativeFault{
	{name: "nothing fails", phases: []knative.Phase{knative.Promoted}},
	{name: "the new Revision never becomes ready", do: func(s *knativeSite) {}, phases: []knative.Phase{knative.RolledBack}},
	{name: "killed between writing and reading back", do: func(s *knativeSite) {
		s.once(func(next func() error) error {
			if err := next(); err != nil {
				return err
			}
			defer s.restart()
			return errors.New("killed after writing")
		})
	}, phases: []knative.Phase{knative.Promoted}},
	{name: "killed before writing", do: func(s *knativeSite) {
		s.once(func(func() error) error {
			defer s.restart()
			return errors.New("killed before writing")
		})
	}, phases: []knative.Phase{knative.Promoted}},
	{name: "killed at every write of a way back", do: func(s *knativeSite) {
		s.canary()
		s.late = .9
		kill := func(next func() error) error {
			err := next()
			defer s.restart()
			return errors.Join(err, errors.New("killed after writing"))
		}
		s.update = kill
	}, phases: []knative.Phase{knative.RolledBack}},
	{name: "the API server is away for a minute", do: func(s *knativeSite) {
		s.away = true
		s.steady(time.Minute)
		s.away = false
	}, phases: []knative.Phase{knative.Promoted}},
	{name: "the API server is away for half an hour", do: func(s *knativeSite) {
		s.away = true
		s.steady(30 * time.Minute)
		s.away = false
	}, phases: []knative.Phase{knative.Promoted, knative.RolledBack}},
	{name: "a user edits the template", do: func(s *knativeSite) {
		s.edit(image)
		s.step()
		require.Contains(s.t, []knative.Phase{"", knative.Restoring, knative.RolledBack}, s.state().Phase, "ours has ended")
	}, phases: []knative.Phase{knative.Promoted}, check: usersImage},
	{name: "a user edits the template between reading and writing", do: func(s *knativeSite) {
		s.once(func(next func() error) error {
			s.edit(image)
			return next()
		})
		s.until(func() bool { return s.state().Phase == knative.Promoted })
	}, phases: []knative.Phase{knative.Promoted}, check: usersImage},
	{name: "a user sets the limit", do: func(s *knativeSite) {
		s.canary()
		s.edit(setLimit(1001))
		s.ended()
	}, phases: []knative.Phase{knative.RolledBack}, check: func(t *testing.T, s *knativeSite) {
		t.Helper()
		require.Equal(t, int64(1001), *read(t, s).Fields.Limit, "it stays")
	}},
	{name: "a user gives all traffic to the latest Revision", do: func(s *knativeSite) {
		s.canary()
		s.edit(setTraffic(latest))
		s.act(s.leaders[0]) // at once: in virtual time a request comes every 10 s
		s.ended()
	}, phases: []knative.Phase{knative.RolledBack}, check: notAgain},
	{name: "a file is applied again and again, with its traffic and numbers", do: func(s *knativeSite) {
		s.canary()
		for range 6 {
			s.edit(func(u *unstructured.Unstructured) {
				setTraffic(latest)(u)
				setLimit(0)(u)
			})
			s.act(s.leaders[0])
			s.step()
		}
		s.ended()
	}, phases: []knative.Phase{knative.RolledBack}, check: notAgain},
	{name: "the server refuses the former template", do: func(s *knativeSite) {
		s.canary()
		s.refuses = true
		s.spec(func(m *v1alpha1.MultidimPodAutoscaler) { m.Spec.Concurrency.Mode = v1alpha1.ConcurrencyObserve })
		s.phase(knative.Restoring)
		require.Equal(s.t, pinned, read(s.t, s).Traffic)
		s.steady(time.Minute)
		require.Equal(s.t, pinned, read(s.t, s).Traffic)
		require.Equal(s.t, "ServiceRefused", meta.FindStatusCondition(s.object().Status.Conditions, v1alpha1.ConditionAble).Reason)
		s.refuses = false
	}, phases: []knative.Phase{knative.RolledBack}},
	{name: "a user changes the traffic", do: func(s *knativeSite) {
		s.edit(setTraffic(map[string]any{"revisionName": "web-00001", "latestRevision": false, "percent": int64(100), "tag": "mine"}))
	}, phases: []knative.Phase{"", knative.RolledBack, knative.Promoted /* before they did */}, traffic: []knative.Traffic{{Revision: "web-00001", Percent: 100, Tag: "mine"}}},
	{name: "two lead", do: func(s *knativeSite) {
		s.leaders = append(s.leaders, s.leader())
		// The second writes what it decided on what was there before.
		s.once(func(next func() error) error {
			s.act(s.leaders[1])
			return next()
		})
	}, phases: []knative.Phase{knative.Promoted}},
	{name: "the Service is deleted", do: func(s *knativeSite) {
		if u := s.service(); u != nil {
			require.NoError(s.t, s.api.Delete(s.t.Context(), u))
		}
		s.steady(5 * time.Minute)
	}, check: func(t *testing.T, s *knativeSite) {
		t.Helper()
		require.Nil(t, s.service(), "it is not made again")
		require.Equal(t, "Refused", s.object().Status.Knative.Phase)
		require.Contains(t, s.object().Status.Knative.Reason, "there is no Service web")
	}},
	{name: "the object is deleted", do: deleteObject, check: nothingLeft},
	{name: "the object is deleted while no updater runs", do: func(s *knativeSite) {
		leaders := s.leaders
		s.leaders = nil
		deleteObject(s)
		s.steady(5 * time.Minute)
		// Nothing tells a new updater of the object: it looks for Services whose object is gone.
		for range 30 {
			_, err := leaders[0].sweep(s.t.Context(), client.HasLabels{knative.Annotation})
			require.NoError(s.t, err)
			s.step()
		}
	}, check: nothingLeft},
	{name: "the object is made again under its name", do: func(s *knativeSite) {
		deleteObject(s)
		m := knativeWeb()
		m.UID = "mpa-2"
		require.NoError(s.t, s.api.Create(s.t.Context(), m))
		for range 30 {
			_, err := s.leaders[0].sweep(s.t.Context(), client.HasLabels{knative.Annotation})
			require.NoError(s.t, err)
			s.step()
		}
	}, phases: []knative.Phase{knative.Promoted}},
	{name: "the mode is turned down", do: func(s *knativeSite) {
		s.canary()
		s.spec(func(m *v1alpha1.MultidimPodAutoscaler) { m.Spec.Concurrency.Mode = v1alpha1.ConcurrencyObserve })
		s.ended()
	}, phases: []knative.Phase{knative.RolledBack}},
	{name: "mode Off", do: func(s *knativeSite) {
		s.canary()
		s.spec(func(m *v1alpha1.MultidimPodAutoscaler) { m.Spec.Mode = v1alpha1.ModeOff })
		s.ended()
	}, phases: []knative.Phase{knative.RolledBack}},
	{name: "metrics are missing from then on", do: func(s *knativeSite) { s.silent = true }, phases: []knative.Phase{knative.RolledBack}, check: notMeasured},
	{name: "metrics are stale from then on", do: func(s *knativeSite) {
		s.canary()
		s.lag = time.Hour
	}, phases: []knative.Phase{knative.RolledBack}, check: notMeasured},
	{name: "metrics are missing for five minutes", do: func(s *knativeSite) {
		s.silent = true
		s.steady(5 * time.Minute)
		s.silent = false
	}, phases: []knative.Phase{knative.Promoted}},
	{name: "the new Revision loses requests", do: func(s *knativeSite) {}, phases: []knative.Phase{knative.RolledBack}, check: func(t *testing.T, s *knativeSite) {
		t.Helper()
		// A tenth of the requests of half a minute at most, and only what was lost of those.
		require.LessOrEqual(t, s.lostAll, s.rate*knative.Percent/100*30*s.lost)
	}},
	{name: "the new Revision is later", do: func(s *knativeSite) {}, phases: []knative.Phase{knative.RolledBack}},
	{name: "no Revision becomes ready after the canary", do: func(s *knativeSite) {
		s.canary()
		s.starts = 240 * time.Hour
		s.phase(knative.Restoring)
	}, phases: []knative.Phase{knative.Restoring}, traffic: pinned},
}

func deleteObject(s *knativeSite) {
	if m := s.object(); m != nil {
		require.NoError(s.t, s.api.Delete(s.t.Context(), m))
	}
}

// ended lets a step pass, after which the canary has.
func (s *knativeSite) ended() {
	s.step()
	require.Contains(s.t, []knative.Phase{knative.Restoring, knative.RolledBack}, s.state().Phase)
}

func notAgain(t *testing.T, s *knativeSite) {
	t.Helper()
	s.steady(time.Hour)
	require.Equal(t, 1, s.canaries)
}

func notMeasured(t *testing.T, s *knativeSite) {
	t.Helper()
	require.Contains(t, s.state().Reason, "nothing has measured it for ")
}

func nothingLeft(t *testing.T, s *knativeSite) {
	t.Helper()
	require.NotContains(t, s.service().GetAnnotations(), knative.Annotation)
	require.NotContains(t, s.service().GetLabels(), knative.Annotation)
}

func usersImage(t *testing.T, s *knativeSite) {
	t.Helper()
	list, _, _ := unstructured.NestedSlice(s.service().Object, "spec", "template", "spec", "containers")
	require.Equal(t, "example.com/web:2", list[0].(map[string]any)["image"])
	require.Equal(t, s.revisions[len(s.revisions)-1], s.ready(), "it serves")
}

// Whatever fails, a Service is left with its traffic in one piece, at most one Revision of ours gets a
// part of the requests, and none more than that before it was found better; what users change stays.
// SIGMA_ROUNDS says how many Services each fault meets, each at another moment.
func TestKnativeFaults(t *testing.T) {
	rounds := 1
	if text := os.Getenv("SIGMA_ROUNDS"); text != "" {
		var err error
		rounds, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	onOneGoroutine(t)
	for i, fault := range slices.Concat(knativeFaults, targetFaults) {
		t.Run(fault.name, func(t *testing.T) {
			var canaries, lost, split float64
			outcomes := map[knative.Phase]int{}
			for round := range rounds {
				s := newKnativeSite(t, seeded(i, round))
				r := s.random
				s.rate = 50 + 450*r.Float64()
				s.starts = time.Duration(1+r.IntN(60)) * time.Second
				s.ours = knative.Setting{Limit: int64(2 + r.IntN(100)), Rate: rounded(1 + 50*r.Float64())}
				for _, l := range s.leaders {
					l.Canary.Longest = 20 * time.Minute
				}
				switch fault.name {
				case "the new Revision never becomes ready":
					s.never = true
				case "the new Revision loses requests":
					s.lost = .2 + .8*r.Float64()
				case "the new Revision is later", "no Revision becomes ready after the canary":
					s.late = .4 + .5*r.Float64()
				}
				s.steady(time.Duration(r.IntN(300)) * time.Second)
				if fault.do != nil {
					fault.do(s)
				}
				about := fmt.Sprintf("round %d: %+v", round, s.ours)
				s.steady(5 * time.Second)
				for range 4 * time.Hour / knativeTick { // until it is at rest
					if state := s.state(); slices.Contains(fault.phases, state.Phase) || s.object() == nil && state.Phase == "" || s.service() == nil {
						break
					}
					s.step()
				}
				s.steady(5 * time.Minute)
				require.Empty(t, s.problems, about)
				if fault.phases != nil {
					require.Contains(t, fault.phases, s.state().Phase, "%s: %+v", about, s.state())
				}
				if s.service() != nil {
					want := fault.traffic
					if want == nil {
						want = []knative.Traffic{{Percent: 100}}
					}
					v := read(t, s)
					require.Equal(t, want, v.Traffic, about)
					if s.state().Phase == knative.RolledBack && s.object() != nil && want[0].Revision == "" {
						require.False(t, v.Fields.Equal(s.ours.Fields()), about)
					}
				}
				if fault.check != nil {
					fault.check(t, s)
				}
				if s.lost == 0 && s.lostTried == 0 {
					require.Zero(t, s.lostAll, about)
				}
				canaries, lost, split = canaries+float64(s.canaries), lost+s.lostAll, split+float64(s.split)*knativeTick.Minutes()
				outcomes[s.state().Phase]++
			}
			t.Logf("| %s | %d | %.0f | %d | %d | %.1f | %.0f |", fault.name, rounds, canaries, outcomes[knative.Promoted], outcomes[knative.RolledBack], split/float64(rounds), lost)
		})
	}
}
