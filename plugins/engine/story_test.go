package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/revision"
)

// story is the history of a policy, and the events since the last call.
func story(s *apiServer, name string) (history, told []string) {
	o, err := s.Tracker().Get(policies, "", name)
	require.NoError(s, err)
	list, err := revision.List(s.Context(), s, revision.DefaultNamespace, o.(*unstructured.Unstructured).GetUID())
	require.NoError(s, err)
	for _, r := range list {
		history = append(history, fmt.Sprintf("%d %s %s", r.Number, r.Mode(), r.Digest[:12]))
	}
	written, err := s.Resource(eventsOf).Namespace("default").List(s.Context(), metav1.ListOptions{})
	require.NoError(s, err)
	slices.SortFunc(written.Items, func(a, b unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	for i := range written.Items {
		e := &written.Items[i]
		of, _, _ := unstructured.NestedString(e.Object, "regarding", "name")
		require.Equal(s, name, of)
		told = append(told, fmt.Sprint(e.Object["reason"], " ", e.Object["note"]))
		require.NoError(s, s.Resource(eventsOf).Namespace("default").Delete(s.Context(), e.GetName(), metav1.DeleteOptions{}))
	}
	return history, told
}

func TestPolicyStory(t *testing.T) {
	inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
		a, b := spreading().Digest(), shipped(t, "hand-k0").Digest()
		s.apply(policies, "general", specOf(t, spreading(mode("shadow"))))
		s.apply(policies, "unused", specOf(t, spreading()))
		watch(l)
		settle()
		history, told := story(s, "general")
		require.Equal(t, []string{"1 shadow " + a[:12]}, history)
		require.Equal(t, []string{fmt.Sprintf("PolicyTakenUp Revision 1. Profile %s took generation 1 up as primary: mode shadow, digest %s", l.opt.Profile, a)}, told)
		history, _ = story(s, "unused")
		require.Empty(t, history)

		// A mode, a share, other numbers; provenance is not worth a revision, what is refused neither.
		s.apply(policies, "general", specOf(t, spreading(mode("canary", 10))))
		settle()
		s.apply(policies, "general", specOf(t, spreading(mode("canary", 20))))
		settle()
		s.apply(policies, "general", specOf(t, spreading(func(s *policy.Spec) { s.Mode, s.CanaryPercent, s.Weights = "canary", nil, []float64{1e9} })))
		settle()
		same := specOf(t, spreading(mode("canary", 20)))
		same["provenance"] = map[string]any{"why": "tried"}
		s.apply(policies, "general", same)
		settle()
		s.apply(policies, "general", specOf(t, shipped(t, "hand-k0", mode("live"))))
		settle()
		history, told = story(s, "general")
		require.Equal(t, []string{"1 shadow " + a[:12], "2 canary 10 % " + a[:12], "3 canary 20 % " + a[:12], "4 live " + b[:12]}, history)
		require.Len(t, told, 3)
		require.Contains(t, told[0], "NewMode Revision 2.")
		require.Contains(t, told[0], "mode before it shadow")
		require.Contains(t, told[1], "mode canary 20 %")
		require.Contains(t, told[2], "NewDigest Revision 4.")
		require.Contains(t, told[2], "mode live, digest "+b+", before it "+a+" in mode canary 20 %")

		// Ten are kept, and the one to roll back to.
		for i := range 12 {
			s.apply(policies, "general", specOf(t, shipped(t, "hand-k0", mode([]policy.Mode{"shadow", "live"}[i%2]))))
			settle()
		}
		history, told = story(s, "general")
		require.Len(t, told, 12)
		require.Len(t, history, 11)
		require.Equal(t, "3 canary 20 % "+a[:12], history[0])
		require.Equal(t, "16 live "+b[:12], history[10])
	})
}

// TestPolicyStoryOfStandby: who does not lead writes nothing until it does.
func TestPolicyStoryOfStandby(t *testing.T) {
	inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
		var leads atomic.Bool
		var asked atomic.Int32
		l.opt.Leads = func() bool { asked.Add(1); return leads.Load() }
		s.apply(policies, "general", specOf(t, spreading(mode("shadow"))))
		watch(l)
		settle()
		s.apply(policies, "general", specOf(t, spreading(mode("live"))))
		time.Sleep(time.Minute)
		settle()
		history, told := story(s, "general")
		require.Empty(t, history)
		require.Empty(t, told)
		require.LessOrEqual(t, asked.Load(), int32(14), "not each second")
		leads.Store(true)
		time.Sleep(leadsEvery)
		settle()
		history, told = story(s, "general")
		digest := spreading().Digest()[:12]
		require.Equal(t, []string{"1 shadow " + digest, "2 live " + digest}, history)
		require.Len(t, told, 2)

		// Another standby takes over: what the leader before it wrote is there, also where it was one version behind.
		next := two(t, func(o *Options) { o.Now, o.Leads = nil, leads.Load })
		leads.Store(false)
		watch(next)
		settle()
		leads.Store(true)
		s.apply(policies, "general", specOf(t, spreading(mode("shadow"))))
		settle()
		history, told = story(s, "general")
		require.Equal(t, []string{"1 shadow " + digest, "2 live " + digest, "3 shadow " + digest}, history)
		require.Len(t, told, 1, "of two that lead")
		o, err := s.Tracker().Get(policies, "", "general")
		require.NoError(t, err)
		old := o.(*unstructured.Unstructured).DeepCopy()
		old.SetGeneration(old.GetGeneration() - 1)
		old.Object["spec"].(map[string]any)["mode"] = "live"
		for _, numbers := range []string{spreading().Digest(), "sha256:others"} {
			written, before, err := revision.Record(t.Context(), s, revision.DefaultNamespace, old, numbers)
			require.NoError(t, err)
			require.Nil(t, written, "a version before the newest")
			require.EqualValues(t, 3, before.Number)
		}
	})
}

// TestPolicyStoryRefused: without the right the policy is in force all the same, and its event says
// so, once. An answer that is missing is asked for again.
func TestPolicyStoryRefused(t *testing.T) {
	inBubble(t, func(l *lab, s *apiServer, watch func(*lab) bool) {
		var refusal atomic.Pointer[apierrors.StatusError]
		refusal.Store(apierrors.NewForbidden(revisions.GroupResource(), "x", errors.New("no")))
		s.PrependReactor("create", revisions.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			if err := refusal.Load(); err != nil {
				return true, nil, err
			}
			return false, nil, nil
		})
		s.apply(policies, "general", specOf(t, spreading()))
		watch(l)
		settle()
		history, told := story(s, "general")
		require.Empty(t, history)
		require.Len(t, told, 1)
		require.True(t, strings.HasPrefix(told[0], "PolicyTakenUp Profile "), told[0])

		refusal.Store(apierrors.NewInternalError(errors.New("later")))
		s.apply(policies, "general", specOf(t, spreading(mode("shadow"))))
		settle()
		history, told = story(s, "general")
		require.Empty(t, history)
		require.Empty(t, told)
		refusal.Store(nil)
		settle()
		history, told = story(s, "general")
		require.Len(t, history, 1)
		require.Len(t, told, 1)
	})
}
