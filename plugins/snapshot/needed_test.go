package snapshot

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// nodeAt is a node with its last heartbeat at 12:00, and the last change of its readiness.
func nodeAt(name, meta, spec, changed string) string {
	return `{"apiVersion": "v1", "kind": "Node", "metadata": {` + meta + `"name": "` + name + `", "uid": "` + name + `"}, "spec": {` + spec + `}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
		"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-05-04T12:00:00Z", "lastTransitionTime": "` + changed + `"}]}}`
}

func clusterOf(t *testing.T, texts ...string) (facts, nodes map[string]any, tr *trace.Trace) {
	t.Helper()
	tr, _ = traceOf(t, texts...)
	facts = tr.Source["cluster"].(map[string]any)
	nodes, _ = facts["nodes"].(map[string]any)
	return facts, nodes, tr
}

const may, justNow = "2026-05-01T00:00:00Z", "2026-05-04T11:55:00Z"

// Empty nodes that pods are to come to, and those that an owner or the cluster keeps, are not removed.
func TestEmptyNodesThatStay(t *testing.T) {
	waits := renamed(podText, "web-1", "web-2", `"p1"`, `"p2"`, `"nodeName": "n1", `, ``, "Running", "Pending", `"cpu": "1"`, `"cpu": "3500m"`)
	near := renamed(waits, `"containers"`, `"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}}, "containers"`)
	gated := renamed(waits, `"containers"`, `"schedulingGates": [{"name": "g"}], "containers"`)
	optOut, unwell := `"annotations": {"karpenter.sh/do-not-disrupt": "true"}, `, `"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]`
	for name, of := range map[string]struct {
		meta, spec, changed string
		pods                []string
		why                 string
	}{
		"empty":                    {"", "", may, nil, ""},
		"a pod of the trace waits": {"", "", may, []string{waits}, ""},
		"one near others waits":    {"", "", may, []string{near}, "pods that wait fit on it"},
		"one with a gate":          {"", "", may, []string{gated}, "pods that wait fit on it"},
		"one waits for another":    {"", `"taints": [{"key": "gpu", "effect": "NoSchedule"}]`, may, []string{near}, ""},
		"just started":             {`"creationTimestamp": "` + justNow + `", `, "", justNow, nil, "started less than 10 minutes ago"},
		"just ready":               {`"creationTimestamp": "` + may + `", `, "", justNow, nil, "its readiness changed less than 10 minutes ago"},
		"starts":                   {`"creationTimestamp": "` + justNow + `", `, unwell, justNow, nil, "started less than 10 minutes ago"},
		"not initialized":          {"", `"taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"}]`, may, nil, "not ready yet: node.cloudprovider.kubernetes.io/uninitialized"},
		"of Karpenter":             {`"labels": {"karpenter.sh/registered": "true"}, `, "", may, nil, "not ready yet: karpenter.sh/initialized"},
		"opted out":                {optOut, "", may, nil, "annotation karpenter.sh/do-not-disrupt"},
		"cordoned, opted out":      {optOut, `"unschedulable": true`, may, nil, "annotation karpenter.sh/do-not-disrupt"},
		"not well, opted out":      {optOut, unwell, may, nil, "annotation karpenter.sh/do-not-disrupt"},
		"not well, runs the plane": {`"labels": {"node-role.kubernetes.io/control-plane": ""}, `, unwell, may, nil, "control plane"},
	} {
		_, nodes, _ := clusterOf(t, append([]string{nodeAt("n1", "", "", may), nodeAt("n2", of.meta, of.spec, of.changed), podText}, of.pods...)...)
		got, _ := nodes["n2"].(map[string]any)
		if of.why == "" {
			require.Nil(t, got["stays"], name)
			continue
		}
		require.Equal(t, []any{of.why, true}, []any{got["why"], got["stays"]}, name)
	}
	_, nodes, _ := clusterOf(t, nodeAt("n1", "", "", may), nodeAt("n2", "", unwell, may), podText)
	require.Nil(t, nodes["n2"].(map[string]any)["stays"], "it has been dead for days")
	_, nodes, _ = clusterOf(t, nodeText, renamed(nodeText, `"n1"`, `"n2"`, `"u1"`, `"u2"`, `"uid"`, `"creationTimestamp": "`+justNow+`", "uid"`), podText)
	require.Nil(t, nodes, "no sign of life, no time")
}

// A cluster keeps a node for pods to come: the cheapest of those that take any, or the one that is there.
func TestLastNodeStays(t *testing.T) {
	small := func(text string) string {
		return renamed(text, `"cpu": "4", "memory": "8Gi"`, `"cpu": "2", "memory": "4Gi"`)
	}
	cordon, taint := `"unschedulable": true`, `"taints": [{"key": "dedicated", "value": "a", "effect": "NoSchedule"}]`
	dead := `"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]`
	agent := renamed(podText, `"ReplicaSet"`, `"DaemonSet"`)
	plane := nodeAt("cp", `"labels": {"node-role.kubernetes.io/control-plane": ""}, `, `"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]`, may)
	for name, of := range map[string]struct {
		last  string
		texts []string
	}{
		"DaemonSets alone":         {"n2", []string{nodeAt("n1", "", "", may), small(nodeAt("n2", "", "", may)), agent}},
		"and the control plane":    {"n1", []string{nodeAt("n1", "", "", may), plane, agent}},
		"a pod on a cordoned one":  {"n2", []string{nodeAt("n1", "", cordon, may), nodeAt("n2", "", "", may), podText}},
		"others are for some pods": {"n2", []string{nodeAt("n1", "", taint, may), nodeAt("n2", "", "", may), podText}},
		"all are for some pods":    {"n2", []string{nodeAt("n1", "", taint, may), small(nodeAt("n2", "", taint, may)), plane, agent}},
		"all are cordoned":         {"n1", []string{nodeAt("n1", "", cordon, may), nodeAt("n2", "", cordon, may), agent}},
		"or dead":                  {"n1", []string{nodeAt("n1", "", cordon, may), nodeAt("n2", "", dead, may), agent}},
		"one is in use":            {"", []string{nodeAt("n1", "", "", may), nodeAt("n2", "", "", may), podText}},
		"one starts":               {"", []string{nodeAt("n1", "", "", justNow), nodeAt("n2", "", "", may), agent}},
		"the pods were not read":   {"", []string{nodeAt("n1", "", "", may)}},
	} {
		_, nodes, _ := clusterOf(t, of.texts...)
		last := ""
		for node, why := range nodes {
			if fact := why.(map[string]any); fact["why"] == "the last node for pods" {
				last += node
				require.Equal(t, true, fact["stays"], name)
			}
		}
		require.Equal(t, of.last, last, name)
	}
	_, nodes, _ := clusterOf(t, nodeAt("n1", "", "", may), nodeAt("n2", "", cordon, may), agent)
	require.Equal(t, true, nodes["n1"].(map[string]any)["takes"])
	require.Nil(t, nodes["n2"].(map[string]any)["takes"])
}

// Cluster-autoscaler and Karpenter do not remove a node in use that opts out: its pods stay, so no move frees it.
func TestNodesInUseThatOptOut(t *testing.T) {
	for _, key := range []string{"karpenter.sh/do-not-disrupt", "cluster-autoscaler.kubernetes.io/scale-down-disabled"} {
		ready := renamed(podText, `"phase": "Running"`, `"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]`)
		facts, nodes, tr := clusterOf(t, nodeAt("n1", `"annotations": {"`+key+`": "true"}, `, "", may), nodeAt("n2", "", "", may), ready,
			renamed(ready, "web-1", "web-2", `"p1"`, `"p2"`, `"nodeName": "n1"`, `"nodeName": "n2"`))
		require.Equal(t, map[string]any{"why": "annotation " + key, "stays": true, "takes": true}, nodes["n1"])
		require.Equal(t, map[string]any{"shop/web-1": "its node stays: annotation " + key}, tr.Source["fixed"])
		require.Nil(t, facts["follow"])
	}
}

// Pods that must not move now may be replaced elsewhere later.
func TestNotNow(t *testing.T) {
	ready := renamed(podText, `"phase": "Running"`, `"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]`, `"labels": {`, `"labels": {"app": "web", `)
	budget := `{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a", "namespace": "shop"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 0}}`
	spread := `"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor", "labelSelector": {"matchLabels": {"app": "web"}}}], "containers"`
	for name, of := range map[string]struct {
		text, more, why string
		follows         bool
	}{
		"not ready":        {renamed(ready, `"True"`, `"False"`), "", "it is not ready", true},
		"being deleted":    {renamed(ready, `"uid": "p1"`, `"deletionTimestamp": "2026-05-04T12:00:00Z", "uid": "p1"`), "", "it is being deleted", true},
		"a job":            {renamed(ready, `"containers"`, `"restartPolicy": "Never", "containers"`), "", "its work would begin again", true},
		"a budget":         {ready, budget, "its disruption budget allows no eviction now", true},
		"zones":            {renamed(ready, `"containers"`, spread), "", "where it may go depends on the zones of others", true},
		"local storage":    {renamed(ready, `"containers"`, `"volumes": [{"name": "v", "hostPath": {"path": "/v"}}], "containers"`), "", "it has local storage", false},
		"a job with data":  {renamed(ready, `"containers"`, `"restartPolicy": "Never", "volumes": [{"name": "v", "hostPath": {"path": "/v"}}], "containers"`), "", "its work would begin again", false},
		"zones, and data":  {renamed(ready, `"containers"`, `"volumes": [{"name": "v", "hostPath": {"path": "/v"}}], `+spread), "", "it has local storage", false},
		"no controller":    {renamed(ready, `"controller": true`, `"controller": false`), "", "it has no controller that would replace it", false},
		"annotation, late": {renamed(ready, `"True"`, `"False"`, `"uid": "p1"`, `"annotations": {"karpenter.sh/do-not-disrupt": "true"}, "uid": "p1"`), "", "it is not ready", false},
	} {
		texts := []string{nodeAt("n1", `"labels": {"topology.kubernetes.io/zone": "z"}, `, "", may), of.text, renamed(of.text, "web-1", "web-2", `"p1"`, `"p2"`), renamed(of.text, "web-1", "web-3", `"p1"`, `"p3"`)}
		if name == "being deleted" { // the others count as its workload
			texts[2], texts[3] = renamed(ready, "web-1", "web-2", `"p1"`, `"p2"`), renamed(ready, "web-1", "web-3", `"p1"`, `"p3"`)
		}
		if of.more != "" {
			texts = append(texts, of.more)
		}
		facts, _, tr := clusterOf(t, texts...)
		require.Equal(t, of.why, tr.Source["fixed"].(map[string]any)["shop/web-1"], name)
		follow, _ := facts["follow"].(map[string]any)
		require.Equal(t, of.follows, follow["shop/web-1"] != nil, name)
	}
}

// A pod that is being deleted is in no count, unless its controller gives it back under its name.
func TestPodsThatAreBeingDeleted(t *testing.T) {
	going := renamed(podText, `"uid": "p1"`, `"deletionTimestamp": "2026-05-04T12:00:00Z", "uid": "p1"`)
	facts, nodes, _ := clusterOf(t, nodeAt("n1", "", "", may), going, nodeAt("n2", "", "", may), renamed(podText, "web-1", "web-2", `"p1"`, `"p2"`, `"nodeName": "n1"`, `"nodeName": "n2"`))
	require.Equal(t, map[string]any{"shop/web-1": "they are being deleted"}, facts["lost"])
	require.Nil(t, nodes)
	_, nodes, _ = clusterOf(t, nodeAt("n1", "", "", may), going)
	require.Equal(t, "the last node for pods", nodes["n1"].(map[string]any)["why"])
	facts, _, _ = clusterOf(t, nodeAt("n1", "", "", may), renamed(going, "ReplicaSet", "StatefulSet"))
	require.Nil(t, facts["lost"])
	_, nodes, _ = clusterOf(t, nodeAt("n1", "", "", may), nodeAt("n2", "", `"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]`, may), podText,
		renamed(going, "web-1", "web-2", `"p1"`, `"p2"`, `"nodeName": "n1"`, `"nodeName": "n2"`))
	require.Nil(t, nodes["n2"].(map[string]any)["stays"], "its pods run elsewhere by now")
}

// Pods of AWS Fargate and of virtual nodes are named.
func TestPodsWithoutMachines(t *testing.T) {
	facts, _, _ := clusterOf(t, nodeText, nodeAt("f1", `"labels": {"eks.amazonaws.com/compute-type": "fargate"}, `, "", may), nodeAt("v1", `"labels": {"type": "virtual-kubelet"}, `, "", may), podText,
		renamed(podText, "web-1", "far", `"p1"`, `"p2"`, `"nodeName": "n1"`, `"schedulerName": "fargate-scheduler", "nodeName": "f1"`),
		renamed(podText, "web-1", "late", `"p1"`, `"p3"`, `"nodeName": "n1"`, `"schedulerName": "fargate-scheduler"`, "Running", "Pending"),
		renamed(podText, "web-1", "virt", `"p1"`, `"p4"`, `"nodeName": "n1"`, `"nodeName": "v1"`))
	const why = "on a node that pods do not share: AWS Fargate or virtual"
	require.Equal(t, map[string]any{"shop/far": why, "shop/virt": why, "shop/late": "waits for a node of AWS Fargate"}, facts["lost"])
}

// The room of a node for the use of items is that of the node, less the use of pods that are none.
func TestRoomForUse(t *testing.T) {
	agent := renamed(podText, `"ReplicaSet"`, `"DaemonSet"`, "web-1", "agent-1", `"p1"`, `"p2"`)
	facts, _, _ := clusterOf(t, nodeText, podText, agent, podUseText, renamed(podUseText, "web-1", "agent-1", `"cpu": "1"`, `"cpu": "2"`))
	require.Equal(t, map[string]any{"n1": map[string]any{"cpu": 4 - 2.124, "memory": float64(8<<30 - 65<<20)}}, facts["room"])
	require.Equal(t, map[string]any{"shop/Deployment/web@cpu=1": map[string]any{"cpu": 1.124, "memory": float64(65 << 20), "pods": 1}}, facts["use"])
	facts, _, _ = clusterOf(t, nodeText, podText, agent, podUseText)
	require.Equal(t, 3., facts["room"].(map[string]any)["n1"].(map[string]any)["cpu"], "by its request")
	facts, _, _ = clusterOf(t, nodeText, podText, agent)
	require.Nil(t, facts["room"])
}

// Windows has its own nodes by spec.os.name or by the selector; kube-scheduler puts others anywhere.
func TestOperatingSystems(t *testing.T) {
	windows := nodeAt("w1", `"labels": {"kubernetes.io/os": "windows"}, `, "", may)
	for name, of := range map[string]struct {
		spec, on       string
		linux, windows bool
	}{
		"any":               {"", "n1", true, true},
		"by name":           {`"os": {"name": "windows"}, `, "w1", false, true},
		"by selector":       {`"nodeSelector": {"kubernetes.io/os": "windows"}, `, "w1", false, true},
		"linux by name":     {`"os": {"name": "linux"}, `, "n1", true, false},
		"windows, it waits": {`"os": {"name": "windows"}, `, "", false, true},
	} {
		text := renamed(podText, `"nodeName": "n1", `, of.spec+`"nodeName": "`+of.on+`", `)
		_, _, tr := clusterOf(t, nodeAt("n1", "", "", may), nodeAt("n2", `"labels": {"kubernetes.io/os": "linux"}, `, "", may), windows, text)
		uses := map[string]bool{}
		for _, m := range tr.Instance.Machines {
			app := &tr.Instance.Apps[0]
			uses[m.Name] = app.MayUse(m.Type)
		}
		require.Equal(t, map[string]bool{"n1": of.linux, "n2": of.linux, "w1": of.windows}, uses, name)
	}
}
