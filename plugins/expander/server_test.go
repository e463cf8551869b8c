package expander

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/plugins/engine"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// newServer returns a server on an empty cluster, with the prices of a file.
func newServer(t *testing.T, changes ...func(*Options)) *Server {
	t.Helper()
	e, err := engine.New(engine.Options{Profile: t.Name(), PolicyName: "general", Fleet: "open", ReadOnly: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	path := filepath.Join(t.TempDir(), "prices.csv")
	require.NoError(t, os.WriteFile(path, []byte("instance_type,capacity_type,region,price_per_hour\nc2,,,0.10\nc4,,,0.20\nc8,,,0.35\nc16,,,0.70\n"), 0o600))
	prices, err := kube.ReadPrices(path)
	require.NoError(t, err)
	opt := Options{Try: e.Try, Ready: func() error { return nil }, Refresh: func() {}, Prices: prices.WithList()}
	for _, change := range changes {
		change(&opt)
	}
	return New(opt)
}

// node is one of an instance type with cores and 4 GiB for each.
func node(kind string, cores int64) *v1.Node {
	has := v1.ResourceList{"cpu": *resource.NewQuantity(cores, resource.DecimalSI), "memory": *resource.NewQuantity(cores<<32, resource.BinarySI), "pods": resource.MustParse("110")}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "template-of-" + kind, Labels: map[string]string{v1.LabelInstanceTypeStable: kind}},
		Status:     v1.NodeStatus{Allocatable: has, Capacity: has},
	}
}

// pods are some of a workload, each with cores and a GiB for each.
func pods(n int, cores int64) (list []*v1.Pod) {
	for i := range n {
		list = append(list, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: fmt.Sprintf("web-%d-%d", cores, i), UID: types.UID(fmt.Sprintf("%d-%d", cores, i)),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: fmt.Sprint("web-", cores), Controller: new(true)}},
			},
			Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
				"cpu": *resource.NewQuantity(cores, resource.DecimalSI), "memory": *resource.NewQuantity(cores<<30, resource.BinarySI),
			}}}}},
		})
	}
	return list
}

// A group is one that cluster-autoscaler offers to enlarge.
type group struct {
	name  string
	nodes int32
	like  *v1.Node
	pods  []*v1.Pod
}

// call is the request of cluster-autoscaler for some groups; old is that of releases before 1.35.
func call(t *testing.T, old bool, groups ...group) *BestOptionsRequest {
	t.Helper()
	r := &BestOptionsRequest{OldNodes: map[string][]byte{}, Nodes: map[string][]byte{}}
	for _, g := range groups {
		o := &Option{Group: g.name, Nodes: g.nodes, Debug: "theirs"}
		text, err := g.like.Marshal()
		require.NoError(t, err)
		for _, p := range g.pods {
			text, err := p.Marshal()
			require.NoError(t, err)
			if old {
				o.OldPods = append(o.OldPods, text)
			} else {
				o.Pods = append(o.Pods, text)
			}
		}
		if old {
			r.OldNodes[g.name] = text
		} else {
			r.Nodes[g.name] = text
		}
		r.Options = append(r.Options, o)
	}
	return r
}

// ask has a server answer a call.
func ask(ctx context.Context, s *Server, r *BestOptionsRequest) (*BestOptionsResponse, error) {
	return s.call(ctx, func(to any) error {
		proto.Merge(to.(proto.Message), r)
		return nil
	})
}

func chosen(answer *BestOptionsResponse) (names []string) {
	for _, o := range answer.GetOptions() {
		names = append(names, o.GetGroup())
	}
	return names
}

func TestBestOptions(t *testing.T) {
	unknown, cheap := node("x9", 8), node("c2", 2)
	cheap.Annotations = map[string]string{kube.CostAnnotation: ".01"}
	tests := []struct {
		name   string
		groups []group
		want   []string
		debug  string // of the first
	}{
		{
			"many small pods: four cheap nodes cost .40, one large .35",
			[]group{{"c2", 4, node("c2", 2), pods(8, 1)}, {"c8", 1, node("c8", 8), pods(8, 1)}},
			[]string{"c8"},
			"c8: 8 of 8 pods on 1 of 1 nodes, 0.35 an hour each (file): 1.22 times the model's cost of the pods' requests",
		}, // .35 ÷ (8 · (.031611 + .004237))
		{"one small pod: the large node would be empty", []group{{"c2", 1, node("c2", 2), pods(1, 1)}, {"c8", 1, node("c8", 8), pods(1, 1)}}, []string{"c2"}, ""},
		{"pods of 3 cpu waste a quarter of the cheapest type", []group{{"c4", 2, node("c4", 4), pods(2, 3)}, {"c8", 1, node("c8", 8), pods(2, 3)}}, []string{"c8"}, ""},
		{"the same price for each pod: the next expander decides", []group{{"c8", 1, node("c8", 8), pods(8, 1)}, {"c16", 1, node("c16", 16), pods(16, 1)}, {"c2", 4, node("c2", 2), pods(8, 1)}}, []string{"c8", "c16"}, ""},
		{"a type that takes a part of the pods, at less for each", []group{{"c2", 1, node("c2", 2), append(pods(2, 1), pods(1, 6)...)}, {"c8", 1, node("c8", 8), append(pods(2, 1), pods(1, 6)...)}}, []string{"c8"}, ""},
		{"the pod does not fit on the cheap type", []group{{"c2", 1, node("c2", 2), pods(1, 6)}, {"c8", 1, node("c8", 8), pods(1, 6)}}, []string{"c8"}, ""},
		{"no pod fits", []group{{"c2", 1, node("c2", 2), pods(1, 6)}, {"c4", 1, node("c4", 4), pods(1, 6)}}, []string{"c2", "c4"}, "c2: 0 of 1 pods on 0 of 1 nodes, 0.1 an hour each (file)"},
		{"no pods, no nodes", []group{{"c2", 1, node("c2", 2), nil}, {"c4", 0, node("c4", 4), pods(1, 1)}}, []string{"c2", "c4"}, ""},
		{"a price is not known", []group{{"x9", 1, unknown, pods(1, 1)}, {"c2", 1, node("c2", 2), pods(1, 1)}}, []string{"x9", "c2"}, "x9: 1 of 1 pods on 1 of 1 nodes, no price"},
		{"a price is not known where no pod fits", []group{{"x1", 1, node("x1", 1), pods(1, 6)}, {"c8", 1, node("c8", 8), pods(1, 6)}, {"c16", 1, node("c16", 16), pods(1, 6)}}, []string{"c8"}, ""},
		{"an annotation of the template is its price", []group{{"c2", 4, cheap, pods(8, 1)}, {"c8", 1, node("c8", 8), pods(8, 1)}}, []string{"c2"}, ""},
		{"the built-in list", []group{{"m5", 1, node("m5.large", 2), pods(1, 1)}, {"m6g", 1, node("m6g.large", 2), pods(1, 1)}}, []string{"m6g"}, "m6g: 1 of 1 pods on 1 of 1 nodes, 0.077 an hour each (built-in list): 2.148 times the model's cost of the pods' requests"},
		{"pods without requests", []group{{"c2", 1, node("c2", 2), pods(3, 0)}, {"c4", 1, node("c4", 4), pods(3, 0)}}, []string{"c2"}, ""},
		{"nothing is offered", nil, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, old := range []bool{false, true} {
				answer, err := ask(t.Context(), newServer(t), call(t, old, tt.groups...))
				require.NoError(t, err)
				require.Equal(t, tt.want, chosen(answer))
				if tt.debug != "" {
					require.Equal(t, tt.debug, answer.GetOptions()[0].GetDebug())
				}
			}
		})
	}
}

// After an error cluster-autoscaler keeps all groups.
func TestErrors(t *testing.T) {
	good := []group{{"c2", 1, node("c2", 2), pods(1, 1)}}
	noNode, badNode, badPod, many := call(t, false, good...), call(t, false, good...), call(t, false, good...), call(t, false, good...)
	delete(noNode.Nodes, "c2")
	badNode.Nodes["c2"] = []byte("?")
	badPod.Options[0].Pods[0] = []byte("?")
	many.Options[0].Nodes = 1 << 30
	for text, r := range map[string]*BestOptionsRequest{
		"group c2: the call has no node of it": noNode, "group c2: its node: ": badNode, "group c2: pod 0: ": badPod, "want at most 15000": many,
	} {
		_, err := ask(t.Context(), newServer(t), r)
		require.ErrorContains(t, err, text)
		require.Equal(t, codes.InvalidArgument, status.Code(err))
	}
	options, all := &BestOptionsRequest{Options: make([]*Option, mostOptions+1)}, &BestOptionsRequest{Options: []*Option{{Pods: make([][]byte, mostPods)}, {OldPods: make([][]byte, 1)}}}
	for text, r := range map[string]*BestOptionsRequest{"1001 options: want at most 1000": options, "more than 100000 pods": all} {
		_, err := newServer(t).call(t.Context(), func(to any) error {
			to.(*BestOptionsRequest).Options = r.GetOptions()
			return nil
		})
		require.ErrorContains(t, err, text)
		require.Equal(t, codes.InvalidArgument, status.Code(err))
	}
	_, err := ask(t.Context(), newServer(t, func(o *Options) { o.Ready = func() error { return errors.New("nodes are not read yet") } }), call(t, false, good...))
	require.Equal(t, codes.Unavailable, status.Code(err))

	s := newServer(t, func(o *Options) {
		o.Try = func(context.Context, []engine.Offer) ([][]int, error) { panic("a bug") }
	})
	for range 2 { // the first one releases the lock
		_, err = ask(t.Context(), s, call(t, false, good...))
		require.Equal(t, codes.Internal, status.Code(err))
	}
}

// The answer is an error before cluster-autoscaler stops waiting.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(o *Options) {
			o.Try = func(ctx context.Context, _ []engine.Offer) ([][]int, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		begin := time.Now()
		_, err := ask(t.Context(), s, call(t, false, group{"c2", 1, node("c2", 2), pods(1, 1)}))
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
		require.Equal(t, patience, time.Since(begin))
	})
}

// A call that does not notice its end is answered in time, as are those that wait for it.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		s := newServer(t, func(o *Options) { o.Refresh = func() { <-stuck } })
		r := call(t, false, group{"c2", 1, node("c2", 2), pods(1, 1)})
		for range 2 {
			begin := time.Now()
			_, err := ask(t.Context(), s, r)
			require.Equal(t, codes.DeadlineExceeded, status.Code(err))
			require.Equal(t, patience, time.Since(begin))
		}
		close(stuck)
		answer, err := ask(t.Context(), s, r)
		require.NoError(t, err)
		require.Equal(t, []string{"c2"}, chosen(answer))
		_, err = s.call(t.Context(), func(any) error { return errors.New("no message") })
		require.ErrorContains(t, err, "no message")
		_, err = ask(t.Context(), s, r)
		require.NoError(t, err, "the turn is free again")
	})
}

// FuzzBestOptions: no call makes it panic, and no answer to one with options is empty.
func FuzzBestOptions(f *testing.F) {
	f.Add([]byte("\x0a\x08\x0a\x02c2\x10\x01\x2a\x00\x1a\x06\x0a\x02c2\x12\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := &BestOptionsRequest{}
		if proto.Unmarshal(text, r) != nil || len(r.GetOptions()) > 4 {
			return
		}
		answer, err := ask(t.Context(), newServer(t), r)
		if status.Code(err) == codes.Internal {
			t.Fatal(err)
		}
		if err == nil && (len(answer.GetOptions()) == 0) != (len(r.GetOptions()) == 0) {
			t.Fatal("no option is left")
		}
	})
}
