package archtest

import "slices"

const (
	module     = "github.com/sigma-scheduler/sigma"
	laboratory = "lab/..."
)

// A row says what one package, or one family of packages, may import of ours.
// Packages are folders below the module's root; "x/..." means x and everything
// below it, "..." everything. The most specific row counts.
type row struct {
	pkg string
	may []string
}

var table = []row{
	{"binpack", nil},
	{"binpack/gpus", []string{"binpack"}},
	{"binpack/rule", []string{"binpack", "binpack/gpus"}},
	{"binpack/learned", []string{"binpack"}},
	{"binpack/learned/...", []string{"binpack", "binpack/gpus", "binpack/rule", "binpack/learned/..."}},
	{"binpack/learned/planned", []string{"binpack", "binpack/rule", "binpack/learned", "binpack/bound", "binpack/plan"}},
	{"binpack/policy", []string{"binpack", "binpack/rule", "binpack/learned/...", "benchdata/policies", "internal/durable"}},
	{"binpack/measure", []string{"binpack"}},
	{"binpack/bound", []string{"binpack", "binpack/measure"}},
	{"binpack/plan", []string{"binpack", "binpack/bound"}},
	{"binpack/plan/defrag", []string{"binpack", "binpack/rule"}},
	{"binpack/packtest", []string{"binpack", "binpack/learned", "benchdata/policies"}},
	{"swarm", []string{"internal/durable"}},
	{"cerebro", []string{"binpack", "binpack/measure", "binpack/plan/defrag", "cerebro/trace", "internal/usage"}},
	{"cerebro/sized", []string{"binpack", "cerebro/trace", "internal/plural", "internal/usage"}},
	{"cerebro/stack", []string{"binpack", "binpack/plan/defrag", "binpack/rule", "cerebro/sized", "cerebro/trace", "internal/usage"}},
	{"cerebro/trace", []string{"binpack", "internal/durable"}},
	{"cerebro/trace/tracetest", []string{"cerebro/trace"}},
	{"cerebro/report", []string{"internal/plural", "internal/shellword", "binpack", "binpack/measure", "binpack/bound", "cerebro", "cerebro/trace", "internal/sheet/..."}},
	{"benchdata/policies", nil},
	{"benchdata/generate", []string{"binpack", "binpack/bound", "cerebro/trace"}},

	{"plugins/apis/...", []string{"plugins/apis/..."}},
	{"plugins/ledger", []string{"benchdata/policies", "binpack", "binpack/policy", "binpack/rule", "internal/bounded", "internal/durable"}},
	{"plugins/ledger/ledgertest", []string{"plugins/ledger"}},
	{"plugins/owner", nil},
	{"plugins/evict", []string{"plugins/owner"}},
	{"plugins/podspec", []string{"binpack", "internal/bounded", "plugins/owner"}},
	{"plugins/podspec/podtest", nil},
	{"plugins/pricelist", nil},
	{"plugins/kube", []string{"binpack", "binpack/plan", "cerebro/trace", "internal/bounded", "plugins/ledger", "plugins/apis/...", "plugins/podspec", "plugins/pricelist"}},
	{"plugins/nodetypes", []string{"binpack", "cerebro/trace", "plugins/kube", "plugins/podspec", "plugins/pricelist"}},
	{"plugins/volumes", []string{"plugins/podspec"}},
	{"plugins/history", []string{"binpack", "internal/bounded", "cerebro/trace", "plugins/ledger"}},
	{"plugins/defrag", []string{"binpack", "binpack/plan/defrag", "plugins/ledger", "plugins/podspec"}},
	{"plugins/pilot", []string{"internal/learn/phase"}},
	{"plugins/pilot/record", []string{"cerebro/trace", "internal/bounded", "internal/durable", "plugins/history", "plugins/ledger"}},
	{"plugins/pilot/page", []string{"internal/sheet/...", "plugins/pilot"}},
	{"plugins/pilot/control", []string{"binpack", "binpack/policy", "binpack/rule", "cerebro/trace", "internal/bounded", "internal/durable", "internal/evidence", "internal/tune", "plugins/apis/...", "plugins/pilot", "plugins/pilot/page", "plugins/pilot/record", "plugins/podspec", "plugins/revision"}},
	{"plugins/revision", nil},
	{"plugins/engine", slices.Concat(edge, []string{"plugins/defrag", "plugins/revision"})},
	{"plugins/drain", []string{"binpack/plan/defrag", "binpack/policy", "internal/bounded", "internal/cputime", "internal/defrag", "internal/usage", "internal/usage/prometheus", "plugins/apis/...", "plugins/defrag", "plugins/engine", "plugins/evict", "plugins/kube", "plugins/ledger", "plugins/podspec", "plugins/snapshot"}},
	{"plugins/sigma", slices.Concat(edge, []string{"plugins/drain", "plugins/evict"})},
	{"plugins/expander", []string{"plugins/engine", "plugins/kube", "plugins/podspec"}},
	{"plugins/extender", slices.Concat(edge, []string{"internal/serve"})},
	{"plugins/snapshot", slices.Concat(edge, []string{"cerebro/sized", "internal/durable", "internal/plural", "internal/usage", "internal/usage/prometheus", "plugins/nodetypes", "plugins/owner", "plugins/volumes"})},
	{"plugins/manifest", []string{"binpack", "cerebro/trace", "plugins/apis/...", "plugins/history", "plugins/kube", "plugins/ledger", "plugins/podspec"}},
	{"mpa", []string{"mpa/guard"}},
	{"mpa/guard", nil},
	{"mpa/agents", []string{"internal/bounded", "mpa", "mpa/guard", "mpa/capacity", "mpa/learned"}},
	{"mpa/learned", []string{"mpa", "mpa/guard", "internal/learn/drift"}},
	{"mpa/ddpg", []string{"mpa", "mpa/agents", "mpa/guard", "internal/learn/nn", "internal/learn/rl"}},
	{"mpa/loadsim", nil},
	{"mpa/capacity", []string{"internal/learn/drift", "mpa/loadsim"}},
	{"mpa/gate", []string{"mpa/capacity"}},
	{"mpa/gate/rpc", []string{"mpa/gate"}},
	{"mpa/sim", []string{"mpa", "mpa/agents", "mpa/loadsim"}},
	{"mpa/phases", []string{"internal/learn/phase", "mpa", "mpa/guard", "mpa/agents", "mpa/loadsim", "mpa/sim"}},
	{"mpa/journal", []string{"mpa", "mpa/agents", "mpa/phases", "internal/durable"}},
	{"mpa/mpatest", []string{"mpa"}},
	{"mpa/share", nil},
	{"mpa/...", []string{"mpa/...", "internal/bounded", "plugins/podspec", "plugins/owner", "plugins/evict"}},
	{"mpa/history", []string{"internal/usage", "internal/usage/prometheus", "mpa", "mpa/actuate", "mpa/api/v1alpha1", "mpa/collect", "mpa/target", "plugins/owner", "plugins/podspec"}},
	{"mpa/reach", []string{"mpa/api/v1alpha1"}},
	{"mpa/batch", []string{"internal/usage", "internal/usage/prometheus", "mpa/actuate", "plugins/evict", "plugins/owner", "plugins/podspec"}},
	{"mpa/admission", []string{"mpa/...", "plugins/owner", "plugins/podspec", "internal/serve"}},
	{"mpa/report", []string{"mpa", "mpa/agents", "mpa/sim", "internal/sheet/..."}},
	{"flow", []string{"internal/learn/drift"}},
	{"flow/sim", []string{"flow"}},
	{"flow/tune", []string{"flow", "flow/sim", "swarm"}},
	{"flow/report", []string{"flow", "flow/sim", "internal/sheet/..."}},
	{"flow/observe", []string{"flow", "flow/sim", "flow/tune"}},
	{"flow/node", []string{"flow"}},
	{"flow/node/nodetest", nil},
	{"flow/api/v1alpha1", nil},
	{"flow/central", []string{"internal/bounded", "flow", "flow/api/v1alpha1"}},
	{"flow/follow", []string{"internal/bounded", "flow", "flow/api/v1alpha1"}},

	{"internal/train/...", []string{"binpack/...", "swarm", "cerebro/...", "benchdata/generate", "internal/train/...", "internal/durable", "internal/sheet"}},
	{"internal/tune", []string{"benchdata/generate", "binpack/...", "cerebro/...", "internal/train", "internal/compare", "internal/export", "internal/sheet", "internal/shellword"}},
	{"internal/evidence", []string{"benchdata/policies", "binpack", "binpack/bound", "binpack/policy", "binpack/rule", "cerebro", "cerebro/trace", "internal/compare", "internal/learn/drift", "internal/tune"}},
	{"internal/flows", []string{"flow", "flow/report", "flow/sim", "flow/tune"}},
	{"internal/learn/nn", nil},
	{"internal/learn/rl", []string{"internal/learn/nn"}},
	{"internal/learn/drift", nil},
	{"internal/learn/phase", nil},
	{"internal/scaling", []string{"mpa", "mpa/agents", "mpa/journal", "mpa/learned", "mpa/loadsim", "mpa/phases", "mpa/report", "mpa/sim", "swarm", "internal/durable", "internal/learn/nn", "mpa/ddpg"}},
	{"internal/retrain", []string{"internal/scaling", "mpa/api/...", "mpa/learned", "mpa/retraining"}},
	{"internal/bounded", nil},
	{"internal/usage", nil},
	{"internal/usage/prometheus/prometheustest", nil},
	{"internal/usage/prometheus", []string{"internal/durable", "internal/usage"}},
	{"internal/plural", nil},
	{"internal/shellword", nil},
	{"internal/cputime", nil},
	{"internal/durable", nil},
	{"internal/durable/killtest", []string{"internal/durable"}},
	{"internal/serve", nil},
	{"internal/serve/page", []string{"internal/serve"}},
	{"internal/serve/controllers", []string{"internal/serve/page"}},
	{"internal/serve/servetest", nil},
	{"internal/sheet/...", []string{"internal/sheet/..."}},
	{"internal/archtest", nil},
	{"internal/complete", []string{"binpack", "binpack/policy", "binpack/rule", "internal/compare", "internal/export", "internal/flows", "internal/scaling", "internal/train", "internal/tune", "mpa/capacity", "mpa/loadsim", "mpa/sim"}},
	{"internal/schema", []string{"binpack/policy", "mpa", "mpa/journal", "plugins/ledger"}},
	{"internal/operate", []string{"binpack/policy", "internal/durable", "mpa/api/v1alpha1", "plugins/apis/...", "plugins/revision", "plugins/snapshot"}},
	{"internal/compare", []string{"internal/plural", "binpack/...", "cerebro/...", "benchdata/generate", "internal/durable", "internal/defrag"}},
	{"internal/defrag", []string{"internal/plural", "binpack", "binpack/bound", "binpack/plan/defrag", "binpack/rule", "cerebro/trace"}},
	{"internal/month", []string{"binpack", "binpack/policy", "binpack/rule", "cerebro/stack", "cerebro/trace", "mpa", "mpa/agents"}},
	{"internal/savings", []string{"benchdata/generate", "internal/month", "internal/plural", "internal/shellword", "internal/sheet", "binpack", "binpack/bound", "binpack/plan", "cerebro", "cerebro/report", "cerebro/sized", "cerebro/trace", "internal/compare", "internal/defrag", "internal/usage"}},
	{"internal/export", []string{"binpack/policy", "binpack/rule"}},
	{"internal/reportdiff", []string{"internal/sheet"}},
	{"internal/whatif", []string{"internal/plural", "binpack", "binpack/bound", "binpack/plan", "cerebro/report", "cerebro/trace", "internal/compare"}},
	{"internal/explain", []string{"internal/plural", "internal/shellword", "internal/bounded", "mpa", "mpa/journal", "mpa/api/...", "binpack/...", "cerebro/...", "internal/compare", "plugins/ledger", "plugins/podspec", "plugins/snapshot"}},
	{"internal/cli", []string{"..."}},
	{"internal/...", []string{"binpack/...", "cerebro/...", "benchdata/generate"}},
	{"cmd/...", []string{"..."}},
}

// edge is what the doors between Kubernetes and the core may import.
var edge = []string{"internal/bounded", "binpack", "binpack/policy", "binpack/rule", "binpack/measure", "cerebro/trace", "plugins/ledger", "plugins/history", "plugins/apis/...", "plugins/kube", "plugins/podspec", "plugins/engine"}

// A law forbids import paths to some packages, whatever the table allows and
// through any chain of our own packages.
type law struct {
	text      string
	in        []string // packages it binds, in the table's notation
	except    []string // packages it leaves free
	tests     bool     // test files too
	forbidden []string // import paths, "x/..." as in the table
}

var laws = []law{
	{
		text:      "the product does not import the laboratory",
		in:        []string{"..."},
		tests:     true,
		forbidden: []string{module + "/" + laboratory},
	},
	{
		text:      "the core knows no Kubernetes",
		in:        []string{"binpack/...", "swarm/...", "cerebro/..."},
		tests:     true,
		forbidden: []string{"k8s.io/...", "sigs.k8s.io/..."},
	},
	{
		text:      "the autoscaler's decisions know no cluster",
		in:        []string{"mpa", "mpa/agents/...", "mpa/guard/...", "mpa/learned/...", "mpa/loadsim/...", "mpa/capacity/...", "mpa/phases/...", "mpa/sim/...", "mpa/journal/...", "mpa/ddpg/..."},
		tests:     true,
		forbidden: []string{"k8s.io/api/...", "k8s.io/client-go/...", "sigs.k8s.io/controller-runtime/..."},
	},
	{
		text:      "the state of a live cluster and its history know no Kubernetes",
		in:        []string{"plugins/ledger/...", "plugins/history/..."},
		forbidden: []string{"k8s.io/...", "sigs.k8s.io/..."},
	},
	{
		text:      "what the pilot decides knows no cluster",
		in:        []string{"plugins/pilot", "plugins/pilot/record"},
		tests:     true,
		forbidden: []string{"k8s.io/...", "sigs.k8s.io/..."},
	},
	{
		text:      "what reads a pod has no client",
		in:        []string{"plugins/owner/...", "plugins/podspec"},
		forbidden: []string{"k8s.io/client-go/...", "sigs.k8s.io/controller-runtime/..."},
	},
	{
		text:      "the autoscaler does not know the scheduler's state",
		in:        []string{"mpa/..."},
		forbidden: []string{module + "/plugins/ledger/...", module + "/plugins/kube/...", module + "/plugins/engine/..."},
	},
	{
		text:      "the order of flows knows no Kubernetes, but for what many nodes agree on",
		in:        []string{"flow/..."},
		except:    []string{"flow/api/...", "flow/follow", "flow/central"},
		tests:     true,
		forbidden: []string{"k8s.io/...", "sigs.k8s.io/..."},
	},
	{
		text:      "only flow/node and its program know BPF and netlink",
		in:        []string{"..."},
		except:    []string{"flow/node/...", "cmd/sigma-flow"},
		forbidden: []string{"github.com/cilium/ebpf/...", "github.com/vishvananda/netlink/...", "github.com/vishvananda/netns/..."},
	},
	{
		text:      "swarm does not know cerebro",
		in:        []string{"swarm/..."},
		tests:     true,
		forbidden: []string{module + "/cerebro/..."},
	},
	{
		text:      "cerebro does not know swarm",
		in:        []string{"cerebro/..."},
		tests:     true,
		forbidden: []string{module + "/swarm/..."},
	},
	{
		text:      "cmd/sigma builds without k8s.io/kubernetes",
		in:        []string{"cmd/sigma/...", "internal/cli"},
		forbidden: []string{"k8s.io/kubernetes/..."},
	},
	{
		text:      "glog registers flags of its own, so only below cmd/",
		in:        []string{"..."},
		except:    []string{"cmd/..."},
		tests:     true,
		forbidden: []string{"github.com/golang/glog/..."},
	},
}
