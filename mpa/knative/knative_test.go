package knative

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// What is printed for people to apply says what is written otherwise.
func Example() {
	_ = Setting{Limit: 7, Rate: 44.479}.Patch(os.Stdout, "the law")
	// Output:
	// # the law
	// spec:
	//   template:
	//     metadata:
	//       annotations:
	//         autoscaling.knative.dev/class: kpa.autoscaling.knative.dev
	//         autoscaling.knative.dev/metric: rps
	//         autoscaling.knative.dev/target: "44.48"
	//         autoscaling.knative.dev/target-utilization-percentage: "70"
	//     spec:
	//       containerConcurrency: 7
}

var start = time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)

// fresh is a Service of two Revisions' age, for which something else than it has was learned.
func fresh() *Seen {
	f := Fields{Limit: new(int64(0)), Annotations: map[string]string{}}
	return &Seen{
		Now: start, Object: "web", UID: "mpa", Least: 1, MaxAge: 2 * time.Minute,
		Learned: &Learned{Setting{8, 40}, .004},
		Service: Service{Settled: true, Fields: f, Base: "base", Traffic: all(), Created: Revision{Name: "web-1", Fields: f}, Ready: Revision{Name: "web-1", Fields: f}},
	}
}

// begun is a Service with a canary that is ready, and its state.
func begun(t *testing.T) (State, *Seen) {
	t.Helper()
	seen := fresh()
	a := Decide(DefaultTiming(), State{}, seen)
	require.Equal(t, Canary, a.State.Phase)
	v := &seen.Service
	v.Fields, v.Traffic = *a.Fields, a.Traffic
	v.Created = Revision{Name: "web-2", Fields: v.Fields}
	v.Ready = v.Created
	seen.Now = start.Add(6 * time.Minute)
	seen.Trial = trial(seen.Now, arm("web-1", 9000, 0, 900, 3600), arm("web-2", 1000, 0, 100, 400))
	return a.State, seen
}

func arm(name string, requests, lost, late, podSeconds float64) v1alpha1.Arm {
	return v1alpha1.Arm{Revision: name, Requests: requests, Lost: lost, Late: late, PodSeconds: podSeconds}
}

func trial(now time.Time, stable, canary v1alpha1.Arm) *v1alpha1.Trial {
	return &v1alpha1.Trial{Since: metav1.NewMicroTime(now.Add(-5 * time.Minute)), Time: metav1.NewMicroTime(now), Stable: stable, Canary: canary}
}

// Nothing is written to a Service of which something else than Knative's defaults says who gets what.
func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		name         string
		change       func(*Seen)
		word, reason string
	}{
		{"several targets", func(s *Seen) { s.Service.Traffic = []Traffic{{Revision: "web-1", Percent: 50}, {Percent: 50}} }, "TrafficOfOthers", "spec.traffic: 50 % to web-1, 50 % to the latest"},
		{"a named Revision", func(s *Seen) { s.Service.Traffic = []Traffic{{Revision: "web-1", Percent: 100}} }, "TrafficOfOthers", "spec.traffic: 100 % to web-1"},
		{"a tag", func(s *Seen) { s.Service.Traffic = []Traffic{{Percent: 100, Tag: "next"}} }, "TrafficOfOthers", "spec.traffic: 100 % to the latest as next"},
		{"a name of the user's", func(s *Seen) { s.Service.Named = "web-blue" }, "RevisionNamed", `spec.template.metadata.name: "web-blue"`},
		{"class hpa", func(s *Seen) { s.Service.Fields.Annotations[class] = "hpa.autoscaling.knative.dev" }, "ForeignClass", "spec.template.metadata.annotations[autoscaling.knative.dev/class]: \"hpa.autoscaling.knative.dev\""},
		{"an empty class", func(s *Seen) { s.Service.Fields.Annotations[class] = "" }, "ForeignClass", "spec.template.metadata.annotations[autoscaling.knative.dev/class]: \"\" knows no"},
		{"a controller of the Service", func(s *Seen) { s.Service.Owner = "InferenceService web" }, "OwnedByController", "metadata.ownerReferences: InferenceService web controls the Service"},
		{"a canary without its annotation", func(s *Seen) { s.Service.Traffic = split("web-1", Percent) }, "TrafficOfOthers", "a canary of ours whose annotation autoscaling.sigma-scheduler.io/concurrency was taken away"},
		{"one at once", func(s *Seen) { s.Service.Fields.Limit = new(int64(1)) }, "OneAtOnce", "spec.template.spec.containerConcurrency: 1 is kept"},
		{"a negative limit", func(s *Seen) { s.Service.Fields.Limit = new(int64(-1)) }, "OutOfRange", "spec.template.spec.containerConcurrency: -1, want 0 to 1000"},
		{"a limit above Knative's", func(s *Seen) { s.Service.Fields.Limit = new(int64(1001)) }, "OutOfRange", "spec.template.spec.containerConcurrency: 1001, want 0 to 1000"},
		{"a learned limit above it", func(s *Seen) { s.Learned.Limit = 1001 }, "OutOfRange", "containerConcurrency: 1001, want 1 to 1000"},
		{"a rate of nothing", func(s *Seen) { s.Learned.Rate = .001 }, "OutOfRange", "autoscaling.knative.dev/target: 0.001 requests a second, want 0.01 to 1e+09"},
		{"no rate", func(s *Seen) { s.Learned.Rate = math.NaN() }, "OutOfRange", "autoscaling.knative.dev/target: NaN"},
		{"an endless rate", func(s *Seen) { s.Learned.Rate = math.Inf(1) }, "OutOfRange", "autoscaling.knative.dev/target: +Inf"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen := fresh()
			tt.change(seen)
			a := Decide(DefaultTiming(), State{}, seen)
			assert.False(t, a.Write)
			assert.Equal(t, tt.word, a.Refused)
			assert.Contains(t, a.Reason, tt.reason)
		})
	}
	seen := fresh()
	seen.Service.Fields.Limit, seen.Least = new(int64(1)), 2
	f := seen.Service.Fields
	seen.Service.Created.Fields, seen.Service.Ready.Fields = f, f
	assert.True(t, Decide(DefaultTiming(), State{}, seen).Write, "concurrency.min is the owner's consent")
}

// Nothing begins without a reason to.
func TestHeld(t *testing.T) {
	for _, tt := range []struct {
		name   string
		state  State
		change func(*Seen)
		reason string
	}{
		{"another mode", State{}, func(s *Seen) { s.Off = "mode Off writes nothing" }, "mode Off writes nothing"},
		{"nothing learned", State{}, func(s *Seen) { s.Learned = nil }, "not known yet"},
		{"as learned", State{}, func(s *Seen) { s.Service.Fields = Setting{8, 42}.Fields() }, "has what was learned"},
		{"a Revision of the user's is not ready", State{}, func(s *Seen) { s.Service.Created.Name = "web-2" }, "a Revision of the Service itself is under way"},
		{"the status is behind", State{}, func(s *Seen) { s.Service.Settled = false }, "a Revision of the Service itself is under way"},
		{"the Revision has another template", State{}, func(s *Seen) { s.Service.Ready.Fields.Limit = new(int64(5)) }, "does not have the values of the present template; another Revision of the template ends that"},
		{"the Revision is broken", State{}, func(s *Seen) { s.Service.Ready.Failed = "ExitCode1: it crashed" }, "web-1 is not ready: ExitCode1: it crashed"},
		{"it was worse", State{Phase: RolledBack, Worse: []Worse{{Setting: Setting{8, 41}, Base: "base", Demand: .005, Reason: "it lost 9 of 10"}}}, func(*Seen) {}, "not tried again: it lost 9 of 10"},
		{"a pause", State{Phase: RolledBack, Since: start.Add(-9 * time.Minute)}, func(*Seen) {}, "after a pause of 10m"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen := fresh()
			tt.change(seen)
			a := Decide(DefaultTiming(), tt.state, seen)
			assert.False(t, a.Write)
			assert.Empty(t, a.Refused)
			assert.Contains(t, a.Reason, tt.reason)
		})
	}
	worse := State{Phase: RolledBack, Worse: []Worse{{Setting: Setting{8, 40}, Base: "base", Demand: .004}}}
	for name, change := range map[string]func(*Seen){
		"another template":   func(s *Seen) { s.Service.Base = "other" },
		"more cpu a request": func(s *Seen) { s.Learned.Demand = .007 },
		"another setting":    func(s *Seen) { s.Learned.Limit = 12 },
	} {
		seen := fresh()
		change(seen)
		assert.True(t, Decide(DefaultTiming(), worse, seen).Write, name)
	}
}

// How a canary ends.
func TestCanary(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Seen)
		phase  Phase
		worse  bool
		reason string
	}{
		{"it is not ready", func(s *Seen) { s.Service.Ready.Name, s.Service.Settled = "web-1", false }, Canary, false, "it has not become ready yet"},
		{"it never is", func(s *Seen) { s.Service.Ready.Name, s.Now = "web-1", start.Add(10*time.Minute) }, Restoring, true, "it has not become ready within 10m"},
		{"it fails", func(s *Seen) {
			s.Service.Ready.Name, s.Service.Created.Failed, s.Now = "web-1", "ContainerMissing: no such image", start.Add(10*time.Minute)
		}, Restoring, true, "Revision web-2 is not ready: ContainerMissing: no such image within 10m"},
		{"no measurements", func(s *Seen) { s.Trial = nil }, Canary, false, "web-2 is not measured at present"},
		{"those of an earlier one", func(s *Seen) { s.Trial.Canary.Revision = "web-9" }, Canary, false, "web-2 is not measured at present"},
		{"old ones", func(s *Seen) { s.Now = s.Now.Add(3 * time.Minute) }, Canary, false, "web-2 is not measured at present"},
		{"never any", func(s *Seen) { s.Trial, s.Now = nil, start.Add(time.Hour) }, Restoring, true, "nothing has measured it for 50m"},
		{"as good", func(*Seen) {}, Canary, false, "web-2 has 10 %"},
		{"as good for an hour", func(s *Seen) {
			s.Now = start.Add(time.Hour)
			s.Trial.Time = metav1.NewMicroTime(s.Now)
		}, Restoring, true, "not better within 1h"},
		{"too few requests", func(s *Seen) { s.Trial.Canary = arm("web-2", 99, 0, 0, 10) }, Canary, false, "web-2 has 10 % and is compared with web-1"},
		{"fewer late", func(s *Seen) { s.Trial.Canary.Late = 20 }, Promoted, false, "of its requests were lost or late"},
		{"fewer late, and too early", func(s *Seen) {
			s.Trial.Canary.Late, s.Trial.Since = 20, metav1.NewMicroTime(s.Now.Add(-4*time.Minute))
		}, Canary, false, "web-2 has 10 %"},
		{"fewer pods", func(s *Seen) {
			s.Trial = trial(s.Now, arm("web-1", 90000, 0, 900, 72000), arm("web-2", 10000, 0, 100, 4000))
		}, Promoted, false, "a pod answers 2.5 requests/s, one of Revision web-1 1.25"},
		{"fewer pods and more late", func(s *Seen) { s.Trial.Stable.PodSeconds, s.Trial.Canary.Late = 7200, 120 }, Canary, false, "web-2 has 10 % and is compared"},
		{"more late", func(s *Seen) { s.Trial.Canary.Late = 300 }, Restoring, true, "of its requests were lost or late"},
		{"it loses, and at once", func(s *Seen) {
			s.Trial = trial(s.Now, arm("web-1", 90, 0, 0, 36), arm("web-2", 10, 5, 0, 4))
			s.Trial.Since = metav1.NewMicroTime(s.Now.Add(-10 * time.Second))
		}, Restoring, true, "it lost 5 of 10 requests"},
		{"another mode", func(s *Seen) { s.Off = "mode Off writes nothing" }, Restoring, false, "mode Off writes nothing"},
		{"another image", func(s *Seen) { s.Service.Base = "other" }, Restoring, false, "others have changed the template"},
		{"another limit", func(s *Seen) { s.Service.Fields.Limit = new(int64(3)) }, Restoring, true, "others have changed the numbers"},
		{"other traffic", func(s *Seen) { s.Service.Traffic = []Traffic{{Revision: "web-2", Percent: 100}} }, RolledBack, false, "others have changed the traffic: 100 % to web-2"},
		{"all traffic to the latest", func(s *Seen) { s.Service.Traffic = all() }, Restoring, true, "others have given all requests to the latest Revision"},
		{"all traffic to the latest, and the numbers of before", func(s *Seen) {
			s.Service.Traffic, s.Service.Fields = all(), fresh().Service.Fields
		}, Restoring, true, "others have given all requests to the latest Revision"},
		{"fewer late, and with less to do", func(s *Seen) {
			s.Trial = trial(s.Now, arm("web-1", 9000, 0, 900, 300), arm("web-2", 1000, 0, 20, 300))
		}, Canary, false, "and gets 50 %"},
		{"fewer lost, and less comes to a pod that answers more", func(s *Seen) {
			s.Trial = trial(s.Now, arm("web-1", 9000, 6840, 0, 300), arm("web-2", 1000, 0, 0, 120))
		}, Promoted, false, "of its requests were lost or late"},
		{"it breaks", func(s *Seen) {
			s.Service.Ready.Failed, s.Service.Created.Failed = "ExitCode1: it crashed", "ExitCode1: it crashed"
		}, Restoring, true, "Revision web-2 was ready and is not: ExitCode1: it crashed"},
		{"not measured for long", func(s *Seen) { s.Now = s.Now.Add(12*time.Minute + time.Second) }, Restoring, true, "nothing has measured it for 12m1s"},
		{"never measured for long", func(s *Seen) { s.Trial, s.Now = nil, start.Add(22*time.Minute+time.Second) }, Restoring, true, "nothing has measured it for 12m1s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			state, seen := begun(t)
			tt.change(seen)
			a := Decide(DefaultTiming(), state, seen)
			assert.Equal(t, tt.phase, a.State.Phase, a.Reason)
			assert.Equal(t, tt.phase != Canary || a.State.Half, a.Write)
			assert.Equal(t, tt.worse, len(a.State.Worse) > 0)
			assert.Contains(t, a.Reason, tt.reason)
			switch tt.phase {
			case Restoring:
				assert.Equal(t, only("web-1"), a.Traffic)
			case Promoted:
				assert.Equal(t, all(), a.Traffic)
				assert.Nil(t, a.Fields, "the Revision stays")
			case Canary:
				if a.State.Half {
					assert.Equal(t, split("web-1", 50), a.Traffic)
					break
				}
				fallthrough
			default:
				assert.Nil(t, a.Traffic)
			}
		})
	}
	state, seen := begun(t)
	seen.UID = "another"
	a := Decide(DefaultTiming(), state, seen)
	assert.False(t, a.Write)
	assert.Equal(t, "OtherMPA", a.Refused)
}

// What others have changed stays; what they have not is as it was before.
func TestTakenBack(t *testing.T) {
	state, seen := begun(t)
	v := &seen.Service
	v.Fields = Setting{8, 40}.Fields()
	v.Fields.Annotations[target] = "33"
	v.Fields.Limit = new(int64(5))
	a := Decide(DefaultTiming(), state, seen)
	assert.Equal(t, Fields{Limit: new(int64(5)), Annotations: map[string]string{target: "33"}}, *a.Fields)
	// All goes to the Revision of before until one of the present template is ready.
	v.Fields, v.Traffic = *a.Fields, a.Traffic
	b := Decide(DefaultTiming(), a.State, seen)
	assert.False(t, b.Write, "the latest is still ours")
	v.Created = Revision{Name: "web-3", Fields: v.Fields}
	assert.False(t, Decide(DefaultTiming(), a.State, seen).Write, "it is not ready")
	v.Ready = v.Created
	v.Settled = false
	assert.False(t, Decide(DefaultTiming(), a.State, seen).Write, "the status is behind")
	v.Settled = true
	b = Decide(DefaultTiming(), a.State, seen)
	assert.Equal(t, RolledBack, b.State.Phase)
	assert.Equal(t, all(), b.Traffic)
	// Others' traffic stays.
	v.Traffic = []Traffic{{Revision: "web-3", Percent: 100}}
	b = Decide(DefaultTiming(), a.State, seen)
	assert.True(t, b.Write)
	assert.Nil(t, b.Traffic)
	assert.Equal(t, RolledBack, b.State.Phase)
}

// What the owner takes back after it was promoted is not tried again.
func TestOwnerTakesBack(t *testing.T) {
	seen := fresh()
	state := State{Object: "web", UID: "mpa", Phase: Promoted, Ours: Setting{8, 40}, Base: "base", Demand: .004, Promoted: &Setting{8, 40}}
	a := Decide(DefaultTiming(), state, seen)
	require.True(t, a.Write)
	assert.Nil(t, a.Fields)
	assert.Nil(t, a.Traffic)
	assert.Nil(t, a.State.Promoted)
	assert.Equal(t, "the owner of the Service took it back", a.Reason)
	half := fresh() // an apply of a file without annotations
	half.Service.Fields = Setting{8, 40}.Fields()
	half.Service.Fields.Limit = new(int64(0))
	assert.Contains(t, Decide(DefaultTiming(), state, half).Reason, "took it back, but for the annotations autoscaling.knative.dev/class, autoscaling.knative.dev/metric, autoscaling.knative.dev/target, autoscaling.knative.dev/target-utilization-percentage of the template")
	seen.Now = start.Add(time.Hour)
	a = Decide(DefaultTiming(), a.State, seen)
	assert.False(t, a.Write)
	assert.Contains(t, a.Reason, "not tried again: its owner took it back")
}

// A limit of 1 that was found better is ours to raise, whatever came of the next one.
func TestOneAtOncePromoted(t *testing.T) {
	state, seen := begun(t)
	state.Ours = Setting{1, 40}
	v := &seen.Service
	v.Fields = state.Ours.Fields()
	v.Ready.Fields, v.Created.Fields = v.Fields, v.Fields
	seen.Trial.Canary.Late = 20
	a := Decide(DefaultTiming(), state, seen)
	require.Equal(t, Promoted, a.State.Phase, a.Reason)
	promote := func(phase Phase) Action {
		s := a.State
		s.Phase = phase
		later := fresh()
		later.Now = start.Add(time.Hour)
		later.Service.Fields = v.Fields
		later.Service.Created.Fields, later.Service.Ready.Fields = v.Fields, v.Fields
		return Decide(DefaultTiming(), s, later)
	}
	assert.Equal(t, Canary, promote(Promoted).State.Phase)
	next := promote(RolledBack)
	require.Equal(t, Canary, next.State.Phase, next.Reason)
	assert.Equal(t, &Setting{1, 40}, next.State.Promoted)
	kept, err := ReadState(next.State.String())
	require.NoError(t, err)
	assert.Equal(t, &Setting{1, 40}, kept.Promoted)
}

// Others give all requests to the latest Revision again and again: ours does not keep them.
func TestTrafficOfOthersMeanwhile(t *testing.T) {
	state, seen := begun(t)
	v := &seen.Service
	v.Traffic = all()
	a := Decide(DefaultTiming(), state, seen)
	assert.Equal(t, only("web-1"), a.Traffic)
	v.Fields = *a.Fields
	v.Settled = false
	b := Decide(DefaultTiming(), a.State, seen)
	assert.Equal(t, Restoring, b.State.Phase)
	assert.Equal(t, only("web-1"), b.Traffic, "the latest is ours until that of the former template is ready")
	v.Created = Revision{Name: "web-3", Fields: v.Fields}
	v.Ready, v.Settled = v.Created, true
	b = Decide(DefaultTiming(), a.State, seen)
	assert.Equal(t, RolledBack, b.State.Phase)
	assert.Nil(t, b.Traffic, "it is what they wrote")
	seen.Now = seen.Now.Add(time.Hour)
	assert.Contains(t, Decide(DefaultTiming(), b.State, seen).Reason, "are not tried again: others have given all requests")
}

// Under a name of the user's Knative takes no other template: the requests go back all the same.
func TestNamedMeanwhile(t *testing.T) {
	state, seen := begun(t)
	v := &seen.Service
	v.Named, v.Base = "web-blue", "other"
	a := Decide(DefaultTiming(), state, seen)
	assert.Equal(t, Restoring, a.State.Phase)
	assert.Nil(t, a.Fields)
	assert.Equal(t, only("web-1"), a.Traffic)
	v.Traffic = a.Traffic
	b := Decide(DefaultTiming(), a.State, seen)
	assert.False(t, b.Write, "the latest has our numbers")
	assert.Contains(t, b.Reason, `spec.template.metadata.name: "web-blue" is others'`)
	v.Named = ""
	b = Decide(DefaultTiming(), a.State, seen)
	assert.Equal(t, fresh().Service.Fields, *b.Fields)
	assert.Equal(t, only("web-1"), b.Traffic)
	assert.Equal(t, Restoring, b.State.Phase)
}

// An object that is gone leaves nothing behind.
func TestForget(t *testing.T) {
	assert.Equal(t, Action{}, Forget(DefaultTiming(), State{}, fresh()))
	state, seen := begun(t)
	seen.UID = ""
	a := Forget(DefaultTiming(), state, seen)
	assert.Equal(t, Restoring, a.State.Phase)
	assert.True(t, Forget(DefaultTiming(), State{Phase: Promoted}, fresh()).Drop)
}

func TestTiming(t *testing.T) {
	require.NoError(t, DefaultTiming().Check())
	for want, change := range map[string]func(*Timing){
		"ready: ":   func(x *Timing) { x.Ready = 0 },
		"least: 2h": func(x *Timing) { x.Least = 2 * time.Hour },
		"pause: ":   func(x *Timing) { x.Pause = -1 },
	} {
		x := DefaultTiming()
		change(&x)
		require.ErrorContains(t, x.Check(), want)
	}
}

// Whatever is seen, a step leaves the traffic split only in the phase that looks after it, and never
// gives a Revision of ours more than its part but by a promotion.
func FuzzDecide(f *testing.F) {
	for seed := range 20 {
		f.Add(uint64(seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := seeded(int(seed >> 1))
		state, seen := begun(t)
		pick := func(n int) int { return r.IntN(n) }
		state.Phase = []Phase{"", Canary, Restoring, Promoted, RolledBack}[pick(5)]
		v := &seen.Service
		v.Traffic = [][]Traffic{all(), split("web-1", Percent), only("web-1"), {{Revision: "x", Percent: 60}, {Percent: 40}}}[pick(4)]
		fields := []Fields{fresh().Service.Fields, state.Ours.Fields(), {Limit: new(int64(1))}}
		v.Fields, v.Ready.Fields, v.Created.Fields = fields[pick(3)], fields[pick(3)], fields[pick(3)]
		v.Base = []string{"base", "other"}[pick(2)]
		v.Settled = pick(2) == 0
		v.Ready.Name, v.Created.Name = fmt.Sprint("web-", 1+pick(3)), fmt.Sprint("web-", 1+pick(3))
		if pick(3) == 0 {
			seen.Off = "off"
		}
		if pick(3) == 0 {
			seen.Trial = nil
		}
		if pick(2) == 0 {
			was := arm("web-1", 1000, 0, 10, 100)
			state.Target = &Target{Stage: []Stage{Measuring, Writing, Trying, Kept, Back}[pick(5)], Since: start, Revision: "web-1", Limit: 8, Tried: 60, Rate: float64(50 * pick(2)), Base: "base", Was: &was, Reason: "it is tried"}
			if pick(4) > 0 {
				seen.Target = &Revision{Name: "web-1", Fields: []Fields{v.Fields, Setting{8, 60}.Fields(), Setting{8, 50}.Fields()}[pick(3)]}
			}
			if seen.Trial != nil && pick(2) == 0 {
				seen.Trial.Stable, seen.Trial.Canary = arm("web-1", 900, 0, 9, 90), arm("web-1", 900, 0, float64(pick(99)), 90)
			}
		}
		seen.Now = start.Add(time.Duration(pick(200)) * time.Minute)
		a := Decide(DefaultTiming(), state, seen)
		if (a.Patch != nil || a.Stage != "") && (a.Fields != nil || a.Traffic != nil || a.Patch != nil && (a.Write || seen.Target == nil) || state.UnderWay()) {
			t.Fatalf("target: %+v", a)
		}
		if state.Trying() && a.State.Phase == Canary && !state.UnderWay() {
			t.Fatalf("a canary beside a target: %+v", a)
		}
		if a.Reason == "" {
			t.Fatalf("no reason: %+v", a)
		}
		if !a.Write && (a.Fields != nil || a.Traffic != nil) {
			t.Fatalf("%+v", a)
		}
		if len(a.Traffic) > 1 && a.State.Phase != Canary {
			t.Fatalf("split in phase %s", a.State.Phase)
		}
		if len(a.Traffic) == 1 && a.Traffic[0].Revision == "" && a.State.Phase != Promoted && v.Ready.Fields.Equal(state.Ours.Fields()) && !v.Fields.Equal(state.Ours.Fields()) {
			t.Fatalf("all to ours: %+v", a)
		}
		if text := a.State.String(); !json.Valid([]byte(text)) {
			t.Fatal(text)
		}
	})
}

func seeded(n int) *rand.Rand { return rand.New(rand.NewPCG(22, uint64(n))) } //nolint:gosec // a stream that a seed begins
