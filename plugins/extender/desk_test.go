package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/engine"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
)

// A desk is a server at which a scheduler calls, with a clock that stands still.
type desk struct {
	testing.TB
	*Server
	path string // of the decision log
	now  time.Time
}

func newDesk(t testing.TB, changes ...func(*Options)) *desk {
	t.Helper()
	d := &desk{TB: t, path: filepath.Join(t.TempDir(), "decisions.jsonl"), now: time.Unix(1.7e9, 0)}
	e, err := engine.New(engine.Options{
		Profile: t.Name(), PolicyName: "general", AppLabel: "app", Fleet: "fixed", DecisionLog: d.path, Top: Levels,
		Now: func() time.Time { return d.now },
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	opt := Options{Engine: e, AssumeTTL: 30 * time.Second, MaxRequestBytes: 1 << 20, Now: func() time.Time { return d.now }}
	for _, change := range changes {
		change(&opt)
	}
	d.Server, err = New(opt, informers.NewSharedInformerFactory(fake.NewClientset(), 0))
	require.NoError(t, err)
	d.ready.Store(true)
	return d
}

// filling is a policy that prefers the fullest node, spreading one that prefers
// the emptiest.
func policyOf(weight float64, mode policy.Mode) *policy.Object {
	return &policy.Object{APIVersion: policy.APIVersion, Kind: policy.ObjectKind, Metadata: policy.Metadata{Name: "general"}, Spec: policy.Spec{
		FeatureVersion: 1, Model: "linear", Knowledge: "K0", Features: []string{"mean"}, Weights: []float64{weight}, Mode: mode,
	}}
}

func (d *desk) decideBy(weight float64) {
	d.opt.Engine.SetPolicy(ledger.Primary, policyOf(weight, "live"))
}

func node(name string, cores int) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		"cpu": *resource.NewQuantity(int64(cores), resource.DecimalSI), "memory": *resource.NewQuantity(int64(cores)<<32, resource.BinarySI),
		"pods": resource.MustParse("110"),
	}}}
}

func pod(name, app string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi"),
		}}}}},
	}
}

// at is a pod as the cluster has it, on a node.
func at(p *v1.Pod, node string) *v1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	return p
}

func (d *desk) post(path string, body []byte) (status int, answer []byte) {
	d.Helper()
	w := httptest.NewRecorder()
	d.Handler().ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodPost, path, bytes.NewReader(body)))
	return w.Code, w.Body.Bytes()
}

// call sends what a scheduler sends that is configured to send names of nodes only.
func (d *desk) call(path string, p *v1.Pod, names []string, answer any) {
	d.Helper()
	names = append([]string{}, names...) // never null
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: p, NodeNames: &names})
	require.NoError(d, err)
	status, text := d.post(path, body)
	require.Equal(d, http.StatusOK, status, "%s", text)
	require.NoError(d, json.Unmarshal(text, answer))
}

func (d *desk) prioritize(p *v1.Pod, names ...string) map[string]int64 {
	d.Helper()
	var list extenderv1.HostPriorityList
	d.call("/prioritize", p, names, &list)
	scores := map[string]int64{}
	for _, h := range list {
		scores[h.Host] = h.Score
	}
	require.Len(d, list, len(names))
	return scores
}

// first is the node that a pod is put on.
func (d *desk) first(p *v1.Pod, names ...string) string {
	d.Helper()
	for name, score := range d.prioritize(p, names...) {
		if score == extenderv1.MaxExtenderPriority {
			return name
		}
	}
	return ""
}

func (d *desk) filter(p *v1.Pod, names ...string) (passed []string, refused map[string]string) {
	d.Helper()
	var result extenderv1.ExtenderFilterResult
	d.call("/filter", p, names, &result)
	require.Empty(d, result.Error)
	require.Nil(d, result.Nodes)
	return *result.NodeNames, result.FailedAndUnresolvableNodes
}

func (d *desk) logged(kind ledger.Kind) []*ledger.Event {
	d.Helper()
	require.NoError(d, d.opt.Engine.Close())
	ledgertest.Verify(d, d.path)
	return ledgertest.Events(d, d.path, kind)
}

// oneWeb puts a rule in force: one pod of the app web on a node.
func (d *desk) oneWeb() {
	d.Helper()
	r, err := kube.NewRule(&v1alpha1.PlacementRule{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: v1alpha1.PlacementRuleSpec{
		PodSet: v1alpha1.PodSet{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}, MaxPerNode: new(int32(1)),
	}})
	require.NoError(d, err)
	d.opt.Engine.SetRules([]*kube.Rule{r})
}
