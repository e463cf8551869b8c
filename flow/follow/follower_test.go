package follow

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
)

// A fake kernel does what it is told, unless it fails or somebody has put a queueing discipline there.
type fake struct {
	state   State
	last    Settings
	orders  int
	tries   int
	hints   flow.Hints
	hinted  int // calls
	scopes  int // calls
	busy    error
	foreign bool
	fails   error
	after   func() // what somebody does right after an order
}

func (f *fake) Order(s Settings) (uint64, error) {
	f.tries++
	switch {
	case f.fails != nil:
		return 0, f.fails
	case f.state.Elsewhere:
		return 0, errors.New("an order is on elsewhere: turn it off first")
	case f.foreign:
		return 0, &Refused{Reason: v1alpha1.ReasonForeignQdisc, Err: errors.New("somebody has put fq there")}
	}
	f.orders++
	f.last, f.state = s, State{On: true, Shaping: true, Thresholds: s.Thresholds, ID: uint64(f.orders), Scope: s.Scope}
	id := f.state.ID
	if f.after != nil {
		f.after()
	}
	return id, nil
}

func (f *fake) Hint(h flow.Hints) error {
	if f.hinted++; f.busy != nil {
		return f.busy
	}
	f.hints = h
	return nil
}

func (f *fake) Scope(scope []netip.Addr) error {
	if f.scopes++; f.busy != nil {
		return f.busy
	}
	f.state.Scope = scope
	return nil
}

func (f *fake) Off() error {
	f.state = State{}
	return nil
}

func (f *fake) State() (State, error) { return f.state, nil }

// A case is a follower, its kernel and a policy with a status as central writes it.
type bench struct {
	*testing.T
	Follower
	kernel *fake
	policy *v1alpha1.FlowPolicy
	rv     int
}

func newBench(t *testing.T) *bench {
	p := &v1alpha1.FlowPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid", Generation: 1, CreationTimestamp: metav1.NewTime(time.Unix(1, 0))},
		Spec:       v1alpha1.FlowPolicySpec{Mode: v1alpha1.Live, Bands: 3, CanaryPercent: 10, FloorPercent: .1},
	}
	k := &fake{}
	return &bench{t, Follower{Node: "node-1", Kernel: k}, k, p, 0}
}

// given hands the policy over as a watch would, after a change of it, and returns status and reason of the condition.
func (b *bench) given(change func(p *v1alpha1.FlowPolicy)) v1alpha1.NodeFlowsStatus {
	b.Helper()
	change(b.policy)
	b.rv++
	b.policy.ResourceVersion = string(rune('a' + b.rv))
	return b.Follow([]*v1alpha1.FlowPolicy{b.policy}, nil)
}

func (b *bench) requires(s v1alpha1.NodeFlowsStatus, reason string, thresholds ...int64) {
	b.Helper()
	require.Len(b, s.Conditions, 1)
	require.Equal(b, reason, s.Conditions[0].Reason, s.Conditions[0].Message)
	require.Equal(b, thresholds, s.Thresholds)
	require.Equal(b, flow.Thresholds(thresholds), b.kernel.state.Thresholds)
	want := metav1.ConditionFalse
	if len(thresholds) > 0 {
		want = metav1.ConditionTrue
	}
	require.Equal(b, want, s.Conditions[0].Status)
}

func found(sequence int64, t ...int64) func(p *v1alpha1.FlowPolicy) {
	return func(p *v1alpha1.FlowPolicy) {
		p.Status.ObservedGeneration, p.Status.Sequence, p.Status.Thresholds = p.Generation, sequence, t
	}
}

func spec(change func(s *v1alpha1.FlowPolicySpec)) func(p *v1alpha1.FlowPolicy) {
	return func(p *v1alpha1.FlowPolicy) {
		p.Generation++
		change(&p.Spec)
	}
}

func nothing(*v1alpha1.FlowPolicy) {}

func TestFollow(t *testing.T) {
	b := newBench(t)
	b.requires(b.given(nothing), v1alpha1.ReasonNoThresholds)
	b.requires(b.given(found(1, 10_000, 20_000)), v1alpha1.ReasonOrdered, 10_000, 20_000)
	require.Equal(t, Settings{Thresholds: flow.Thresholds{10_000, 20_000}, Floor: .001}, b.kernel.last)
	s := b.given(nothing)
	require.Equal(t, 1, b.kernel.orders, "nothing is set twice")
	require.Equal(t, types.UID("uid"), s.PolicyUID)
	require.EqualValues(t, 1, s.Sequence)

	// The spec's own come before those that were found, with a rate.
	rate := resource.MustParse("9.4G")
	pinned := spec(func(s *v1alpha1.FlowPolicySpec) { s.Thresholds, s.Rate = []int64{5000, 6000}, &rate })
	b.requires(b.given(pinned), v1alpha1.ReasonOrdered, 5000, 6000)
	require.Equal(t, 9.4e9, b.kernel.last.Rate)
	b.requires(b.given(spec(func(s *v1alpha1.FlowPolicySpec) { s.Thresholds = nil })), v1alpha1.ReasonOrdered, 10_000, 20_000)

	// Of another number of bands, the old ones stay until new ones are found.
	b.requires(b.given(spec(func(s *v1alpha1.FlowPolicySpec) { s.Bands = 2 })), v1alpha1.ReasonOrdered, 10_000, 20_000)
	b.requires(b.given(found(2)), v1alpha1.ReasonOrdered, 10_000, 20_000)
	b.requires(b.given(found(3, 30_000)), v1alpha1.ReasonOrdered, 30_000)

	for _, mode := range []v1alpha1.Mode{v1alpha1.Observe, v1alpha1.Disabled} {
		b.requires(b.given(spec(func(s *v1alpha1.FlowPolicySpec) { s.Mode = mode })), v1alpha1.ReasonMode)
		b.requires(b.given(spec(func(s *v1alpha1.FlowPolicySpec) { s.Mode = v1alpha1.Live })), v1alpha1.ReasonOrdered, 30_000)
	}
	b.requires(b.given(spec(func(s *v1alpha1.FlowPolicySpec) { s.Mode = v1alpha1.Canary })), v1alpha1.ReasonMode)
	b.requires(b.given(func(p *v1alpha1.FlowPolicy) { p.Status.CanaryNode = "node-1" }), v1alpha1.ReasonOrdered, 30_000)

	// Another policy begins without what this one found, also under the name of the old one.
	s = b.given(func(p *v1alpha1.FlowPolicy) {
		p.UID, p.Generation, p.Spec.Mode, p.Status = "other", 1, v1alpha1.Live, v1alpha1.FlowPolicyStatus{}
	})
	b.requires(s, v1alpha1.ReasonNoThresholds)
	require.Zero(t, s.Refused)
	b.requires(b.given(found(1, 40_000)), v1alpha1.ReasonOrdered, 40_000)
	s = b.Follow(nil, nil)
	b.requires(s, v1alpha1.ReasonNoPolicy)
	require.Empty(t, s.Policy)
}

// Sizes are in the kernel while the policy wants them and an order is on, and are written where something has changed.
func TestHints(t *testing.T) {
	b := newBench(t)
	b.Hints = flow.Hints{{Port: 80}: 1e6}
	b.given(found(1, 10_000, 20_000))
	require.Empty(t, b.kernel.hints, "the policy wants none")
	require.Equal(t, 1, b.kernel.hinted, "those of an agent before go")
	b.given(nothing)
	require.Equal(t, 1, b.kernel.hinted)
	b.given(spec(func(s *v1alpha1.FlowPolicySpec) { s.Hints = true }))
	require.Equal(t, b.Hints, b.kernel.hints)
	b.given(nothing)
	require.Equal(t, 2, b.kernel.hinted)

	b.kernel.busy = errors.New("another process is changing this order")
	b.Hints = flow.Hints{{Port: 81}: 1e6}
	s := b.given(nothing)
	require.Equal(t, metav1.ConditionTrue, s.Conditions[0].Status)
	require.Contains(t, s.Conditions[0].Message, "sizes of flows: another process is changing this order")
	b.kernel.busy = nil
	b.requires(b.given(nothing), v1alpha1.ReasonOrdered, 10_000, 20_000)
	require.Equal(t, b.Hints, b.kernel.hints)

	// Another order may have none: they are written again. In a step that orders nothing nobody writes any.
	calls := b.kernel.hinted
	b.given(found(2, 30_000, 40_000))
	require.Equal(t, calls+1, b.kernel.hinted)
	for _, mode := range []v1alpha1.Mode{v1alpha1.Observe, v1alpha1.Disabled} {
		b.given(spec(func(s *v1alpha1.FlowPolicySpec) { s.Mode = mode }))
		require.Equal(t, mode == v1alpha1.Observe, b.hinting, "in Observe they are judged")
		require.Equal(t, calls+1, b.kernel.hinted)
	}
	b.given(spec(func(s *v1alpha1.FlowPolicySpec) { s.Mode = v1alpha1.Live }))
	require.Equal(t, b.Hints, b.kernel.hints)
	b.given(spec(func(s *v1alpha1.FlowPolicySpec) { s.Hints = false }))
	require.Empty(t, b.kernel.hints)
	b.Follow(nil, nil)
	require.False(t, b.hinting)
}

// A DSCP is written while the policy wants it, also where somebody has set an order with the same thresholds: that may have none,
// or another rate.
func TestDSCP(t *testing.T) {
	b := newBench(t)
	is := func(s v1alpha1.NodeFlowsStatus, orders int, want bool) {
		t.Helper()
		b.requires(s, v1alpha1.ReasonOrdered, 10_000, 20_000)
		require.Equal(t, want, b.kernel.last.DSCP)
		require.Equal(t, orders, b.kernel.orders)
	}
	is(b.given(found(1, 10_000, 20_000)), 1, false)
	on := spec(func(s *v1alpha1.FlowPolicySpec) { s.DSCP = true })
	is(b.given(on), 2, true)
	is(b.given(nothing), 2, true)
	b.kernel.state.ID = 100
	b.kernel.after = func() { b.kernel.state.ID, b.kernel.after = 101, nil }
	is(b.given(nothing), 3, true)
	is(b.given(nothing), 4, true)
	is(b.given(nothing), 4, true)
	is(b.given(spec(func(s *v1alpha1.FlowPolicySpec) { s.DSCP = false })), 5, false)
	b.given(on)
	b.requires(b.given(spec(func(s *v1alpha1.FlowPolicySpec) { s.Mode = v1alpha1.Disabled })), v1alpha1.ReasonMode)
	require.False(t, b.kernel.state.On)
}

// What is older than what was taken, or makes no sense, changes nothing and is counted once.
func TestRefused(t *testing.T) {
	older := map[string]func(p *v1alpha1.FlowPolicy){
		"sequence 4 comes after 5":                    found(4, 1000, 2000),
		"sequence 0 comes after 5":                    found(0),
		"sequence 5 has had other thresholds":         found(5, 1000, 2000),
		"threshold 2: 1k comes after 2k":              found(6, 2000, 1000),
		"threshold 1: 1 bytes, want at least 1000":    found(6, 1, 2000),
		"1 thresholds, want one less than the 3 band": found(6, 1000),
		"4 thresholds, want one less":                 found(6, 1000, 2000, 3000, 4000),
		"threshold 1: -1 bytes":                       found(6, -1, 2000),
		"sequence 9223372036854775807 is far above 5": found(math.MaxInt64, 1000, 2000),
		"generation 1 comes after 2":                  func(p *v1alpha1.FlowPolicy) { p.Generation, p.Spec.Thresholds = 1, []int64{1000, 2000} },
		"bands 9, want 2 to 8":                        spec(func(s *v1alpha1.FlowPolicySpec) { s.Bands = 9 }),
		`mode "Fast"`:                                 spec(func(s *v1alpha1.FlowPolicySpec) { s.Mode = "Fast" }),
		"floorPercent 50, want 0.1 to 5":              spec(func(s *v1alpha1.FlowPolicySpec) { s.FloorPercent = 50 }),
		"rate 1k, want 1M to 1T": spec(func(s *v1alpha1.FlowPolicySpec) {
			rate := resource.MustParse("1k")
			s.Rate = &rate
		}),
		`namespaceSelector: "Near" is not a valid label selector operator`: spec(func(s *v1alpha1.FlowPolicySpec) {
			s.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Near"}}}
		}),
		"2 thresholds, want one less than the 4 bands": spec(func(s *v1alpha1.FlowPolicySpec) { s.Bands, s.Thresholds = 4, []int64{1000, 2000} }),
	}
	for want, change := range older {
		t.Run(want, func(t *testing.T) {
			b := newBench(t)
			b.policy.Generation = 2
			b.requires(b.given(found(5, 10_000, 20_000)), v1alpha1.ReasonOrdered, 10_000, 20_000)
			good := b.policy.DeepCopy()
			s := b.given(change)
			b.requires(s, v1alpha1.ReasonOrdered, 10_000, 20_000)
			require.Contains(t, s.Conditions[0].Message, want)
			require.EqualValues(t, 1, s.Refused)
			require.EqualValues(t, 5, s.Sequence)
			require.EqualValues(t, 1, b.Follow([]*v1alpha1.FlowPolicy{b.policy}, nil).Refused, "the same object again")
			require.Equal(t, 1, b.kernel.orders)
			b.policy = good
			s = b.given(found(6, 30_000, 40_000))
			b.requires(s, v1alpha1.ReasonOrdered, 30_000, 40_000)
			require.NotContains(t, s.Conditions[0].Message, want)
		})
	}
	// The way back is open whatever the status says.
	b := newBench(t)
	b.given(found(5, 10_000, 20_000))
	b.requires(b.given(func(p *v1alpha1.FlowPolicy) {
		found(4, 1)(p)
		p.Generation++
		p.Spec.Mode = v1alpha1.Disabled
	}), v1alpha1.ReasonMode)
}

// The way back is open whatever else the spec says, and where the policy is older than the one before, as after the
// restore of a copy. The way on is open from there.
func TestWayBack(t *testing.T) {
	for name, change := range map[string]func(p *v1alpha1.FlowPolicy){
		"bands": func(p *v1alpha1.FlowPolicy) { p.Generation, p.Spec.Bands = 11, 9 },
		"floor": func(p *v1alpha1.FlowPolicy) { p.Generation, p.Spec.FloorPercent = 11, 50 },
		"older": func(p *v1alpha1.FlowPolicy) { p.Generation = 4 },
	} {
		for _, mode := range []v1alpha1.Mode{v1alpha1.Disabled, v1alpha1.Observe} {
			for _, again := range []bool{false, true} {
				t.Run(fmt.Sprint(name, mode, again), func(t *testing.T) {
					b := newBench(t)
					b.policy.Generation = 10
					said := b.given(found(5, 10_000, 20_000))
					if again {
						b.Follower = Follower{Node: "node-1", Kernel: b.kernel}
						b.Resume(&said)
					}
					was := b.policy.Spec
					s := b.given(func(p *v1alpha1.FlowPolicy) {
						p.Spec.Mode = mode
						change(p)
					})
					b.requires(s, v1alpha1.ReasonMode)
					require.Equal(t, b.policy.Generation, s.ObservedGeneration)
					b.requires(b.given(spec(func(s *v1alpha1.FlowPolicySpec) { *s = was })), v1alpha1.ReasonOrdered, 10_000, 20_000)
				})
			}
		}
	}
}

// A number that no central has reached is none to begin from either.
func TestFarAhead(t *testing.T) {
	b := newBench(t)
	s := b.given(found(math.MaxInt64, 10_000, 20_000))
	b.requires(s, v1alpha1.ReasonFailed)
	require.Contains(t, s.Conditions[0].Message, "sequence 9223372036854775807 is far above 0")
	b.requires(b.given(found(6, 30_000, 40_000)), v1alpha1.ReasonOrdered, 30_000, 40_000)
}

// The order of an agent before, on another uplink, makes room.
func TestElsewhere(t *testing.T) {
	b := newBench(t)
	b.kernel.state = State{On: true, Elsewhere: true, Shaping: true, Thresholds: flow.Thresholds{10_000, 20_000}}
	b.requires(b.given(found(1, 10_000, 20_000)), v1alpha1.ReasonOrdered, 10_000, 20_000)
	require.False(t, b.kernel.state.Elsewhere)
}

// What fails is tried again ever more rarely, and at once where there is something else to try.
func TestPause(t *testing.T) {
	b := newBench(t)
	b.kernel.fails = errors.New("no room")
	var s v1alpha1.NodeFlowsStatus
	b.given(found(1, 10_000, 20_000))
	for range 300 {
		s = b.given(nothing)
		require.Equal(t, "no room", s.Conditions[0].Message)
	}
	require.Greater(t, b.kernel.tries, 10)
	require.Less(t, b.kernel.tries, 20)
	tries := b.kernel.tries
	b.given(found(2, 30_000, 40_000))
	require.Equal(t, tries+1, b.kernel.tries)
	for range 100 {
		b.given(nothing)
	}
	b.kernel.fails = nil
	for range longestPauses {
		s = b.given(nothing)
	}
	b.requires(s, v1alpha1.ReasonOrdered, 30_000, 40_000)
}

// Where nothing was taken yet and nothing is on, it says so.
func TestNothingYet(t *testing.T) {
	b := newBench(t)
	b.Resume(&v1alpha1.NodeFlowsStatus{PolicyUID: "uid", ObservedGeneration: 1, Sequence: 5})
	s := b.given(found(4, 1000, 2000))
	b.requires(s, v1alpha1.ReasonFailed)
	require.Equal(t, "the policy's status: sequence 4 comes after 5; no order is on", s.Conditions[0].Message)
}

// An agent goes on from where the one before it was killed: older thresholds are refused, and the kernel stays as it is
// until there is something newer.
func TestResume(t *testing.T) {
	b := newBench(t)
	said := b.given(found(5, 10_000, 20_000))
	again := func() {
		said = b.given(nothing)
		b.Follower = Follower{Node: "node-1", Kernel: b.kernel}
		b.Resume(&said)
	}
	again()
	s := b.given(found(4, 1000, 2000))
	b.requires(s, v1alpha1.ReasonOrdered, 10_000, 20_000)
	require.EqualValues(t, 1, s.Refused)
	require.Equal(t, 1, b.kernel.orders)
	b.requires(b.given(found(5, 10_000, 20_000)), v1alpha1.ReasonOrdered, 10_000, 20_000)
	again()
	b.requires(b.given(func(p *v1alpha1.FlowPolicy) { p.Status = v1alpha1.FlowPolicyStatus{} }), v1alpha1.ReasonOrdered, 10_000, 20_000)
	b.given(found(5, 10_000, 20_000))
	again()
	b.requires(b.given(spec(func(s *v1alpha1.FlowPolicySpec) { s.Mode = v1alpha1.Disabled })), v1alpha1.ReasonMode)
	b.given(spec(func(s *v1alpha1.FlowPolicySpec) { s.Mode = v1alpha1.Live }))
	again()
	b.requires(b.Follow(nil, nil), v1alpha1.ReasonNoPolicy)

	// Not so under another policy, which has found none.
	b.given(nothing)
	again()
	b.requires(b.given(func(p *v1alpha1.FlowPolicy) { p.UID, p.Status = "other", v1alpha1.FlowPolicyStatus{} }), v1alpha1.ReasonNoThresholds)
}

// A queueing discipline of somebody else's is left alone, and the order comes back when it goes.
func TestForeign(t *testing.T) {
	b := newBench(t)
	b.given(found(1, 10_000, 20_000))
	b.kernel.foreign, b.kernel.state.Shaping = true, false
	s := b.given(nothing)
	b.requires(s, v1alpha1.ReasonForeignQdisc)
	require.Contains(t, s.Conditions[0].Message, "somebody has put fq there")
	require.False(t, b.kernel.state.On, "the program is off too")
	b.requires(b.given(nothing), v1alpha1.ReasonForeignQdisc)
	b.kernel.foreign = false
	b.requires(b.given(nothing), v1alpha1.ReasonOrdered, 10_000, 20_000)

	// Where new settings fail the old ones stay, and it says so.
	b.kernel.fails = errors.New("no room")
	s = b.given(found(2, 30_000, 40_000))
	require.Equal(t, metav1.ConditionTrue, s.Conditions[0].Status)
	require.Equal(t, v1alpha1.ReasonFailed, s.Conditions[0].Reason)
	require.Equal(t, "a flow leaves a band after 10k/20k bytes; no room", s.Conditions[0].Message)
	require.Equal(t, []int64{10_000, 20_000}, s.Thresholds)
	b.kernel.fails = nil
	b.requires(b.given(nothing), v1alpha1.ReasonOrdered, 30_000, 40_000)
}
