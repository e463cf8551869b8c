package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// volumeTexts are three nodes in two zones and a StatefulSet of two pods with a volume each, as kubectl writes them.
func volumeTexts(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	add := func(name, text string, args ...any) {
		out, err := yaml.YAMLToJSON([]byte(fmt.Sprintf(text, args...)))
		require.NoError(t, err)
		texts[name] = string(out)
	}
	for _, n := range []struct {
		name, zone string
		volumes    int
	}{{"a1", "a", 2}, {"a2", "a", 2}, {"b1", "b", 25}} {
		add(n.name, `{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {topology.kubernetes.io/zone: %s, kubernetes.io/hostname: %[1]s}}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}`, n.name, n.zone)
		add("csi-"+n.name, `{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: %s}, spec: {drivers: [{name: ebs.csi.aws.com, nodeID: x, allocatable: {count: %d}}]}}`, n.name, n.volumes)
	}
	for i, node := range []string{"a1", "b1"} {
		add(fmt.Sprint("db-", i), `{apiVersion: v1, kind: Pod, metadata: {name: db-%d, namespace: shop, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: s, controller: true}]},
  spec: {nodeName: %s, volumes: [{name: data, persistentVolumeClaim: {claimName: data-db-%[1]d}}], containers: [{name: c, resources: {requests: {cpu: "1"}}}]}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}`, i, node)
		add(fmt.Sprint("pvc-", i), `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data-db-%d, namespace: shop}, spec: {volumeName: pv-%[1]d}, status: {phase: Bound}}`, i)
		add(fmt.Sprint("pv-", i), `{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv-%d}, spec: {csi: {driver: ebs.csi.aws.com, volumeHandle: v%[1]d},
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [%s]}]}]}}}, status: {phase: Bound}}`, i, node[:1])
	}
	add("set", `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: shop, uid: s}, spec: {replicas: 2, template: {spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}}}`)
	return texts
}

func traceOfTexts(t *testing.T, texts map[string]string) (*Picture, *trace.Trace) {
	t.Helper()
	var all []string
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range texts {
			if !yield(name) {
				return
			}
		}
	}) {
		all = append(all, texts[name])
	}
	p, err := ReadDumps(dumps(t, listText(all...)))
	require.NoError(t, err)
	r := NewRecorder("", time.Unix(0, 0))
	require.NoError(t, r.Record(p, time.Unix(0, 0)))
	tr, _, err := r.Trace("c", "open")
	require.NoError(t, err)
	return p, tr
}

// Volumes that are known are types and a dimension, live moves leave their pods, and what may replace them follows the volumes.
func TestVolumes(t *testing.T) {
	p, tr := traceOfTexts(t, volumeTexts(t))
	require.False(t, slices.ContainsFunc(p.Missing, func(m Missing) bool { return slices.Contains(volumeKinds, m.Kind) }))
	require.Nil(t, tr.Source["ignored"])
	fixed, err := tr.Fixed()
	require.NoError(t, err)
	require.Equal(t, podspec.DependsOn+podspec.Volumes, fixed["shop/db-0"], "no live move waits for a volume")
	require.Equal(t, map[string]any{"shop/db-0": true, "shop/db-1": true}, tr.Source["cluster"].(map[string]any)["follow"])
	inst := tr.Instance
	d := slices.IndexFunc(inst.Dimensions, func(d binpack.Dimension) bool { return d.Name == "attachable-volumes-csi-ebs.csi.aws.com" })
	require.GreaterOrEqual(t, d, 0)
	require.Len(t, inst.Apps, 2, "a pod in each zone, and none of the template")
	for i, m := range inst.Machines {
		require.Equal(t, []int64{2, 2, 25}[i], m.Capacity[d], m.Name)
		for a, zone := range []string{"a", "b"} {
			app := inst.Apps[tr.Requests[a].App]
			require.EqualValues(t, 1, app.Demand[d])
			require.Equal(t, strings.HasPrefix(m.Name, zone), slices.Contains(app.Types, m.Type), "%s on %s", app.Name, m.Name)
		}
	}
}

// What is not known keeps pods where they are.
func TestUnknownVolumes(t *testing.T) {
	for name, change := range map[string]func(map[string]string){
		"no claims": func(m map[string]string) { delete(m, "pvc-0") },
		"no volume": func(m map[string]string) { delete(m, "pv-0") },
		"no CSINodes": func(m map[string]string) {
			for _, n := range []string{"a1", "a2", "b1"} {
				delete(m, "csi-"+n)
			}
		},
		"unbound": func(m map[string]string) { m["pvc-0"] = strings.Replace(m["pvc-0"], "Bound", "Lost", 1) },
		"local": func(m map[string]string) {
			m["pv-0"] = strings.Replace(m["pv-0"], `"csi":{"driver":"ebs.csi.aws.com","volumeHandle":"v0"}`, `"local":{"path":"/d"}`, 1)
		},
		"in the tree": func(m map[string]string) {
			m["pv-0"] = strings.Replace(m["pv-0"], `"csi":{"driver":"ebs.csi.aws.com","volumeHandle":"v0"}`, `"awsElasticBlockStore":{"volumeID":"x"}`, 1)
		},
		"shared": func(m map[string]string) {
			m["other"] = strings.ReplaceAll(strings.Replace(m["db-0"], `"name":"db-0"`, `"name":"other"`, 1), `"name":"db"`, `"name":"other"`)
		},
	} {
		texts := volumeTexts(t)
		change(texts)
		p, tr := traceOfTexts(t, texts)
		ignored, err := tr.Ignored()
		require.NoError(t, err)
		require.Equal(t, podspec.Volumes, ignored["shop/db-0"], name)
		follow, _ := tr.Source["cluster"].(map[string]any)["follow"].(map[string]any)
		require.Nil(t, follow["shop/db-0"], name)
		require.Equal(t, name == "no CSINodes", slices.ContainsFunc(p.Missing, func(m Missing) bool { return m.Kind == "CSINode" }), name)
	}
	texts := volumeTexts(t) // another reason remains
	texts["db-0"] = strings.Replace(texts["db-0"], `"metadata":{`, `"metadata":{"annotations":{"karpenter.sh/do-not-disrupt":"true"},`, 1)
	_, tr := traceOfTexts(t, texts)
	require.Equal(t, map[string]any{"shop/db-1": true}, tr.Source["cluster"].(map[string]any)["follow"])

	texts = volumeTexts(t) // a node without the driver takes none, and one without a limit any number
	texts["csi-a2"] = strings.Replace(texts["csi-a2"], "ebs", "efs", 1)
	texts["csi-b1"] = strings.Replace(texts["csi-b1"], `"count":25`, "", 1)
	_, tr = traceOfTexts(t, texts)
	d := slices.IndexFunc(tr.Instance.Dimensions, func(d binpack.Dimension) bool { return strings.HasPrefix(d.Name, "attachable-") })
	require.Zero(t, tr.Instance.Machines[1].Capacity[d])
	require.EqualValues(t, 1000, tr.Instance.Machines[2].Capacity[d])
}
