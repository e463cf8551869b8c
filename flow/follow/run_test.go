package follow

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
)

// A stub takes statuses, and may fail once it has.
type stub struct {
	client.Client
	fails error
	given []v1alpha1.NodeFlowsStatus
}

func (s *stub) Status() client.SubResourceWriter { return stubStatus{of: s} }

type stubStatus struct {
	client.SubResourceWriter
	of *stub
}

func (s stubStatus) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	s.of.given = append(s.of.given, *o.(*v1alpha1.NodeFlows).Status.DeepCopy())
	return s.of.fails
}

func newRunner(now *time.Time) (*Runner, *stub) {
	s := &stub{}
	return &Runner{options: Options{Node: "node-1", Now: func() time.Time { return *now }}, client: s}, s
}

func seen(t *testing.T, sizes ...float64) Traffic {
	t.Helper()
	var s flow.Sketch
	for _, size := range sizes {
		require.NoError(t, s.Add(size))
	}
	return Traffic{Sizes: s, Bytes: int64(len(sizes))}
}

// Nobody knows whether a write that failed was done. It is sent again as it was, and what was seen meanwhile after it: a
// reader of the numbers has everything once.
func TestSentAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	r, s := newRunner(&now)
	r.number = 6
	s.fails = errors.New("timed out")
	r.Saw(seen(t, 1000, 2000))
	r.tell(t.Context(), "uid", &v1alpha1.NodeFlowsStatus{})
	r.Saw(seen(t, 1e6))
	s.fails, now = nil, now.Add(time.Hour)
	r.tell(t.Context(), "uid", &v1alpha1.NodeFlowsStatus{})
	require.Len(t, s.given, 2)
	first, second := s.given[0].Traffic, s.given[1].Traffic
	require.EqualValues(t, 7, first.Number)
	require.EqualValues(t, 7, second.Number)
	require.Equal(t, first.Counts, second.Counts)
	require.Equal(t, first.Bytes, second.Bytes)
	require.True(t, second.Until.Time.Equal(now), "it is not old")
	r.tell(t.Context(), "uid", &v1alpha1.NodeFlowsStatus{})
	require.Len(t, s.given, 3)
	require.EqualValues(t, 8, s.given[2].Traffic.Number)
	require.EqualValues(t, 1, s.given[2].Traffic.Bytes)
	r.tell(t.Context(), "uid", &v1alpha1.NodeFlowsStatus{})
	require.Len(t, s.given, 3, "nothing is new")
}

// A pause ends by the clock as it is, and not by what is written of it: that one goes back with the time of day.
func TestPauseEnds(t *testing.T) {
	now := time.Unix(1000, 900_000_000)
	r, s := newRunner(&now)
	r.next = time.Unix(1000, 500_000_000)
	r.tell(t.Context(), "uid", &v1alpha1.NodeFlowsStatus{})
	require.Len(t, s.given, 1)
	require.True(t, s.given[0].At.Time.Equal(time.Unix(1000, 0)))
}

// The same complaint is heard once a minute.
func TestComplaints(t *testing.T) {
	now := time.Unix(1000, 0)
	r, _ := newRunner(&now)
	one, other := errors.New("one"), errors.New("other")
	require.True(t, r.isNew(one))
	require.False(t, r.isNew(one))
	require.True(t, r.isNew(other))
	now = now.Add(repeated - 1)
	require.False(t, r.isNew(other))
	now = now.Add(1)
	require.True(t, r.isNew(other))
	new := 0
	for i := range 100 { // and no more than some in a minute
		if r.isNew(fmt.Errorf("another %d", i)) {
			new++
		}
		require.False(t, r.isNew(other))
	}
	require.Equal(t, mostComplaints-1, new)
}
