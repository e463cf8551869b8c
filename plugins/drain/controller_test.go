package drain

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

// serve has the controller read its objects from a client, as from an API server without
// validation.
func (c *cluster) serve() {
	register()
	c.objects = fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{rebalances: "RebalanceList"})
	c.read = func(context.Context) (*snapshot.Picture, error) {
		return &snapshot.Picture{Nodes: c.Nodes(), Pods: c.Pods()}, nil
	}
	c.Recorder = events.NewFakeRecorder(1000)
}

// apply writes the object.
func (c *cluster) apply(change func(*v1alpha1.Rebalance)) {
	change(c.object)
	c.object.APIVersion, c.object.Kind = v1alpha1.SchemeGroupVersion.String(), "Rebalance"
	text, err := json.Marshal(c.object)
	require.NoError(c, err)
	u := &unstructured.Unstructured{}
	require.NoError(c, json.Unmarshal(text, u))
	api := c.objects.Resource(rebalances)
	if _, err := api.Get(c.Context(), c.object.Name, metav1.GetOptions{}); err != nil {
		_, err = api.Create(c.Context(), u, metav1.CreateOptions{})
		require.NoError(c, err)
		return
	}
	_, err = api.Update(c.Context(), u, metav1.UpdateOptions{})
	require.NoError(c, err)
}

// status reads the object again.
func (c *cluster) status() v1alpha1.RebalanceStatus {
	u, err := c.objects.Resource(rebalances).Get(c.Context(), c.object.Name, metav1.GetOptions{})
	require.NoError(c, err)
	text, err := json.Marshal(u)
	require.NoError(c, err)
	*c.object = v1alpha1.Rebalance{}
	require.NoError(c, json.Unmarshal(text, c.object))
	return c.object.Status
}

func (c *cluster) requireCondition(kind string, status metav1.ConditionStatus, reason string) {
	c.Helper()
	c.status()
	is := conditionOf(c.object, kind)
	require.Equal(c, []string{string(status), reason}, []string{string(is.Status), is.Reason}, is.Message)
}

// From a dry run to mode Auto and back.
func TestObject(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.serve()
		c.leads = func() bool { return false }
		c.apply(func(o *v1alpha1.Rebalance) { o.Spec.Mode = v1alpha1.RebalanceDryRun })
		c.run(time.Minute)
		require.Equal(c, v1alpha1.RebalanceStatus{}, c.status(), "a standby plans nothing")
		c.leads = func() bool { return true }
		c.run(time.Minute)
		plan := c.status().Plan
		require.EqualValues(c, 3, plan.Freed)
		require.Len(c, c.object.Status.Conditions, 2)
		require.Empty(c, c.evicted)

		c.lacks = "patch nodes"
		c.apply(func(o *v1alpha1.Rebalance) { o.Spec.Mode, o.Generation = v1alpha1.RebalanceAuto, 2 })
		c.run(2 * time.Hour)
		require.Empty(c, c.evicted)
		c.requireCondition(v1alpha1.ConditionStopped, metav1.ConditionTrue, "NoRights")
		c.requireCondition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, "Stopped")

		c.lacks = ""
		c.leads = func() bool { return false }
		c.apply(func(o *v1alpha1.Rebalance) { o.Generation = 3 })
		c.run(2 * time.Hour)
		require.Empty(c, c.evicted, "it does not lead")
		c.leads = func() bool { return true }
		c.run(20 * time.Second)
		c.requireCondition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, "Emptying")
		require.NotNil(c, c.object.Status.Progress.Node)
		c.run(2 * time.Minute)
		c.requireCondition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, "Done")
		c.requireCondition(v1alpha1.ConditionStopped, metav1.ConditionFalse, "NotStopped")
		p := c.object.Status.Progress
		require.Equal(c, []int32{3, 6, 0}, []int32{p.Freed, p.Moved, p.GivenUp})
		require.Nil(c, p.Node)
		require.Len(c, c.cordons(), 3)

		c.apply(func(o *v1alpha1.Rebalance) { o.Spec.Suspend, o.Generation = true, 4 })
		c.run(10 * time.Second)
		c.requireCondition(v1alpha1.ConditionStopped, metav1.ConditionTrue, "Suspended")
		require.Empty(c, c.cordons())
		c.requireAllStand(12)
	})
}

// What is deleted or suspended evicts no more from the next second on, and the pod that is away is waited for.
func TestObjectStops(t *testing.T) {
	for after := 4 * time.Second; after < 20*time.Second; after += time.Second {
		for _, suspend := range []bool{true, false} {
			inCluster(t, func(c *cluster) {
				c.serve()
				c.apply(func(*v1alpha1.Rebalance) {})
				c.run(after)
				begun := len(c.evicted)
				require.Positive(c, begun)
				if suspend {
					c.apply(func(o *v1alpha1.Rebalance) { o.Spec.Suspend, o.Generation = true, 2 })
				} else {
					require.NoError(c, c.objects.Resource(rebalances).Delete(c.Context(), c.object.Name, metav1.DeleteOptions{}))
				}
				c.run(20 * time.Second)
				require.Len(c, c.evicted, begun, "after %v", after)
				require.Empty(c, c.cordons())
				require.Equal(c, suspend, len(c.executions) > 0)
				c.requireAllStand(12)
			})
		}
	}
}

// A scheduler that starts again says that nothing goes on.
func TestObjectAfterARestart(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.serve()
		c.apply(func(*v1alpha1.Rebalance) {})
		c.run(12 * time.Second)
		c.requireCondition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, "Emptying")
		objects, evicted := c.objects, len(c.evicted)
		require.NoError(c, c.engine.Close())
		c.start()
		c.serve()
		c.objects = objects
		c.run(30 * time.Minute)
		c.requireCondition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, "Interrupted")
		require.Nil(c, c.object.Status.Progress.Node)
		require.Len(c, c.evicted, evicted)
		c.run(time.Hour)
		c.requireCondition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, "Done")
		require.Greater(c, len(c.evicted), evicted)
		for name, pods := range c.cordons() {
			require.Zero(c, pods, name)
		}
		c.requireAllStand(12)
	})
}

// The object changes between the plan and its status: nothing begins, and the next plan does.
func TestPlanIsNotWritten(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.serve()
		refused := 0
		c.objects.(*fake.FakeDynamicClient).PrependReactor("patch", "rebalances", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if refused > 0 || !strings.Contains(string(a.(clienttesting.PatchAction).GetPatch()), `"empties":[{`) {
				return false, nil, nil
			}
			refused++
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "rebalances"}, "tidy", errors.New("it changed"))
		})
		c.apply(func(*v1alpha1.Rebalance) {})
		c.run(time.Minute)
		require.Equal(c, 1, refused)
		require.Empty(c, c.evicted)
		c.run(failedRetry + 2*time.Minute)
		require.Len(c, c.evicted, 6)
	})
}

// Whoever grants the rights need not wait until the next plan is due.
func TestRightsCome(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.serve()
		c.lacks = "patch nodes"
		c.apply(func(*v1alpha1.Rebalance) {})
		c.run(time.Minute)
		c.requireCondition(v1alpha1.ConditionStopped, metav1.ConditionTrue, "NoRights")
		c.lacks = ""
		c.run(failedRetry + 2*time.Minute)
		c.requireCondition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, "Done")
		require.Len(c, c.evicted, 6)
	})
}

// An answer that the API server did not give does not cost a whole spec.every.
func TestRightsCannotBeAskedFor(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.serve()
		c.unasked = errors.New("no answer")
		c.apply(func(*v1alpha1.Rebalance) {})
		c.run(50 * time.Second)
		c.requireCondition(v1alpha1.ConditionStopped, metav1.ConditionTrue, "Failed")
		c.run(90 * time.Second)
		c.requireCondition(v1alpha1.ConditionStopped, metav1.ConditionTrue, "Failed")
		require.Equal(c, 2, c.failures["tidy"])
		c.unasked = nil
		c.run(3 * time.Minute)
		c.requireCondition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, "Done")
		require.Len(c, c.evicted, 6)
		require.Empty(c, c.failures)
	})
}

// Missing rights are told also where nothing would move.
func TestRightsOfAnEmptyPlan(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.lacks, c.object.Spec.Moves = "patch nodes", "0"
		require.Equal(c, "NoRights", c.begin().stop.reason)
	})
}
