package snapshot

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

func says(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = value
	}
}

func onHost(p *v1.Pod) { p.Spec.HostNetwork = true }

func TestEgress(t *testing.T) {
	uplink := node("n2")
	uplink.Annotations = map[string]string{podspec.EgressAnnotation: "1G"}
	p := picture([]*v1.Node{node("n1"), uplink},
		pod("web", "web-1", "n1", "1", created(1), says(podspec.SendsAnnotation, "shop/Deployment/db=50M:paired")),
		pod("web", "web-2", "n1", "1", created(2), says(podspec.SendsAnnotation, "shop/Deployment/db=50M:paired,nonsense")),
		pod("db", "db-1", "n2", "1", says(podspec.EgressAnnotation, "600M")), pod("db", "db-2", "n2", "1", created(9), says(podspec.EgressAnnotation, "700M")),
		pod("big", "big-1", "", "1", says(podspec.EgressAnnotation, "20G")),
		pod("quiet", "quiet-1", "n1", "1"), pod("host", "host-1", "n1", "1", onHost),
	)
	tr, notes := snap(t, p)
	require.Equal(t, []string{`the annotation sigma-scheduler.io/sends of pod shop/web-2: "nonsense": want GROUP=BITS: that part is ignored`}, notes)
	notes, err := p.AddEgress(tr, "", Egress{Uplink: 10e9, Share: .8, Seen: map[string]float64{"shop/web-1": 1e8, "shop/web-2": 3e8, "shop/db-1": 1, "shop/host-1": 5e9, "other/x": 1}})
	require.NoError(t, err)
	require.Equal(t, []string{
		"pods in the host's network are seen with all of their node's traffic, and count as 0: shop/Deployment/host",
		"nothing is known of what these send, and they count as 0: shop/Deployment/host, shop/Deployment/quiet",
		"one pod of these sends more than the pods of any of its nodes may, and counts as that: shop/Deployment/big (8 Gbit/s instead of 20 Gbit/s)",
		"the pods of these nodes send more than they may: n2 (1.4 Gbit/s of 800 Mbit/s)",
	}, notes)
	texts := files(t, tr)
	require.Contains(t, texts["trace.yaml"], "dimensions: [cpu, memory, pods, egress]\n")
	require.Contains(t, texts["trace.yaml"], "uplinks:\n    n2: 800000000\n")
	require.Contains(t, texts["machines.csv"], ",4,8Gi,10,7812500Ki\n")
	require.Contains(t, texts["machines.csv"], ",4,8Gi,10,1400000000\n")
	for _, line := range []string{",1,0,1,200000000,", ",1,0,1,700000000,", ",1,0,1,7812500Ki,", ",1,0,1,0,"} {
		require.Contains(t, texts["apps.csv"], line)
	}
	require.Equal(t, "app,other,bits_per_second,pattern\nshop/Deployment/web@cpu=1,shop/Deployment/db@cpu=1,50000000,paired\n", texts["pairs.csv"])
}

// What pods ask for by the extended resource comes before annotations, in Mbit/s.
func TestEgressThatIsAskedFor(t *testing.T) {
	offers := node("n1")
	offers.Status.Allocatable[podspec.EgressResource] = resource.MustParse("5000")
	asks := func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests[podspec.EgressResource] = resource.MustParse("300")
	}
	p := picture([]*v1.Node{offers}, pod("web", "web-1", "n1", "1", asks, says(podspec.EgressAnnotation, "1G")), pod("db", "db-1", "n1", "1", says(podspec.EgressAnnotation, "40M")))
	tr, _ := snap(t, p)
	notes, err := p.AddEgress(tr, "", Egress{Share: .8})
	require.NoError(t, err)
	require.Empty(t, notes)
	texts := files(t, tr)
	require.Contains(t, texts["trace.yaml"], "dimensions: [cpu, memory, pods, egress]\n")
	require.Contains(t, texts["machines.csv"], ",4,8Gi,10,5000000000\n")
	require.Contains(t, texts["apps.csv"], ",1,0,1,300000000,")
	require.Contains(t, texts["apps.csv"], ",1,0,1,40000000,")
}

// What pods that stay on their nodes send or ask for is not there for others.
func TestEgressOfPodsThatStay(t *testing.T) {
	agent := func(changes ...func(*v1.Pod)) *v1.Pod {
		return pod("agent", "agent-1", "n1", "0", append(changes, ofDaemonSet)...)
	}
	p := picture([]*v1.Node{node("n1"), node("n2", cordoned)}, pod("web", "web-1", "n1", "1", says(podspec.EgressAnnotation, "7G")), agent(says(podspec.EgressAnnotation, "2G")))
	tr, _ := snap(t, p)
	notes, err := p.AddEgress(tr, "", Egress{Uplink: 10e9, Share: .8})
	require.NoError(t, err)
	require.Equal(t, []string{
		"one pod of these sends more than the pods of any of its nodes may, and counts as that: shop/Deployment/web (6 Gbit/s instead of 7 Gbit/s)",
	}, notes)
	require.Contains(t, files(t, tr)["trace.yaml"], "egressShare: 0.8\n")

	// What one in the host's network says of itself counts, and so does what one asks for where no other pod asks.
	capacity := func(changes ...func(*v1.Pod)) (bits int64, notes []string) {
		p := picture([]*v1.Node{node("n1")}, pod("web", "web-1", "n1", "1", says(podspec.EgressAnnotation, "1G")), agent(changes...))
		tr, _ := snap(t, p)
		notes, err := p.AddEgress(tr, "", Egress{Uplink: 10e9, Share: .8, Seen: map[string]float64{"shop/agent-1": 5e9}})
		require.NoError(t, err)
		return tr.Instance.Machines[0].Capacity[3], notes
	}
	bits, notes := capacity(onHost, says(podspec.EgressAnnotation, "2G"))
	require.Equal(t, int64(6e9), bits)
	require.Empty(t, notes)
	bits, notes = capacity(onHost)
	require.Equal(t, int64(8e9), bits)
	require.Equal(t, []string{"nothing is known of what these pods of every node send, and they count as 0: shop/DaemonSet/agent"}, notes)

	offers := func(n *v1.Node) { n.Status.Allocatable[podspec.EgressResource] = resource.MustParse("5000") }
	asks := func(p *v1.Pod) {
		if p.Spec.Containers[0].Resources.Requests == nil {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{}
		}
		p.Spec.Containers[0].Resources.Requests[podspec.EgressResource] = resource.MustParse("1000")
	}
	bits, notes = capacity(asks, says(podspec.EgressAnnotation, "2G"))
	require.Equal(t, int64(7e9), bits)
	require.Empty(t, notes)
	p = picture([]*v1.Node{node("n1", offers)}, pod("web", "web-1", "n1", "1", asks), agent(asks))
	tr, _ = snap(t, p)
	_, err = p.AddEgress(tr, "", Egress{Share: .8})
	require.NoError(t, err)
	require.Equal(t, int64(4e9), tr.Instance.Machines[0].Capacity[3])

	p = picture([]*v1.Node{node("n1", offers), node("n2")}, pod("web", "web-1", "n1", "1", asks))
	tr, _ = snap(t, p)
	_, err = p.AddEgress(tr, "", Egress{Uplink: 10e9, Share: .8})
	require.ErrorContains(t, err, "pods ask for sigma-scheduler.io/egress-mbps, and go to none of the nodes without it: n2")
}

func TestEgressThatIsWrong(t *testing.T) {
	odd := node("n1")
	odd.Annotations = map[string]string{podspec.EgressAnnotation: "fast"}
	for want, p := range map[string]*Picture{
		"node n1: nothing says how much its uplink can: give --uplink, or the annotation sigma-scheduler.io/egress": picture([]*v1.Node{node("n1")}, pod("web", "web-1", "n1", "1")),
		`node n1: the annotation sigma-scheduler.io/egress: "fast"`:                                                 picture([]*v1.Node{odd}, pod("web", "web-1", "n1", "1")),
		`pod shop/web-1: the annotation sigma-scheduler.io/egress: "-1": want 0 to 2^50`:                            picture([]*v1.Node{node("n1")}, pod("web", "web-1", "n1", "1", says(podspec.EgressAnnotation, "-1"))),
		`pod shop/web-1: the annotation sigma-scheduler.io/egress: "often"`:                                         picture([]*v1.Node{node("n1")}, pod("web", "web-1", "n1", "1", says(podspec.EgressAnnotation, "often"), ofDaemonSet)),
	} {
		tr, _ := snap(t, p)
		_, err := p.AddEgress(tr, "", Egress{Share: .8})
		require.ErrorContains(t, err, want)
	}
}
