package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/mpa/sidecar"
)

// A full quota keeps only those pods from their size that it counts, by all of its scopes; a
// RuntimeClass's overhead counts too.
func TestScopedQuotas(t *testing.T) {
	const full = "status: {hard: {requests.cpu: 10}, used: {requests.cpu: 9.5}}"
	const pod = "containers: [{name: main, resources: {requests: {cpu: 500m, memory: 2Gi}}}]"
	for name, c := range map[string]struct {
		pod, quota string
		counts     bool
	}{
		"of all":                     {pod, "{" + full + "}", true},
		"other pods' class":          {pod, "{" + full + ", spec: {scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [batch]}]}}}", false},
		"its class":                  {pod + ", priorityClassName: batch", "{" + full + ", spec: {scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [batch]}]}}}", true},
		"all classes but its":        {pod + ", priorityClassName: batch", "{" + full + ", spec: {scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: NotIn, values: [batch]}]}}}", false},
		"any class, and it has none": {pod, "{" + full + ", spec: {scopes: [PriorityClass]}}", false},
		"jobs":                       {pod, "{" + full + ", spec: {scopes: [Terminating]}}", false},
		"a job":                      {pod + ", activeDeadlineSeconds: 9", "{" + full + ", spec: {scopes: [Terminating]}}", true},
		"no jobs":                    {pod, "{" + full + ", spec: {scopes: [NotTerminating]}}", true},
		"best effort":                {pod, "{" + full + ", spec: {scopes: [BestEffort]}}", false},
		"both of two scopes":         {pod, "{" + full + ", spec: {scopes: [NotBestEffort, NotTerminating]}}", true},
		"one of two scopes":          {pod, "{" + full + ", spec: {scopes: [NotBestEffort, Terminating]}}", false},
		"affinity across namespaces": {pod, "{" + full + ", spec: {scopes: [CrossNamespacePodAffinity]}}", false},
		"room without the overhead":  {pod + ", overhead: {cpu: 100m}", "{status: {hard: {requests.cpu: 10}, used: {requests.cpu: 9}}}", true},
	} {
		p := v1.Pod{Spec: parse[v1.PodSpec](t, "{"+c.pod+"}")}
		o := object(t, "", "")
		changes, err := size(&p, o.Status.Recommendation.Containers, o.Spec.Constraints.Containers, o.ByUse(), nil, []v1.ResourceQuota{parse[v1.ResourceQuota](t, c.quota)})
		if c.counts {
			require.ErrorIs(t, err, errQuota, name)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, "main: cpu 500m to 1", changes, name)
	}
}

// The gate needs room only in the quotas that count its pod, among them those that count it for
// the gate alone; and a LimitRange's ratio needs a limit.
func TestGateInScopedQuotas(t *testing.T) {
	const plain = "{containers: [{name: main}]}"
	const sized = "{containers: [{name: main, resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: 200m}}}]}"
	for name, c := range map[string]struct {
		pod, quota, ranges, want string
	}{
		"other pods'":                       {sized, "{spec: {scopes: [Terminating]}, status: {hard: {requests.cpu: 2, limits.cpu: 1}, used: {requests.cpu: 2}}}", "", ""},
		"its own":                           {sized, "{spec: {scopes: [NotTerminating]}, status: {hard: {requests.cpu: 2}, used: {requests.cpu: 2}}}", "", "ResourceQuota: "},
		"of best effort, which a gate ends": {plain, "{spec: {scopes: [NotBestEffort]}, status: {hard: {pods: 2}, used: {pods: 2}}}", "", "ResourceQuota: "},
		"a ratio":                           {sized, "{}", "{type: Container, maxLimitRequestRatio: {cpu: 2}}", "LimitRange: "},
	} {
		before := v1.Pod{Spec: parse[v1.PodSpec](t, c.pod)}
		after := *before.DeepCopy()
		after.Spec.InitContainers = append(after.Spec.InitContainers, parse[v1.Container](t, "{name: "+sidecar.Name+", restartPolicy: Always, resources: {requests: {cpu: 25m, memory: 32Mi}, limits: {memory: 64Mi}}}"))
		ranges := []v1.LimitRange{{Spec: v1.LimitRangeSpec{Limits: parse[[]v1.LimitRangeItem](t, "["+c.ranges+"]")}}}
		err := room(&before, &after, ranges, []v1.ResourceQuota{parse[v1.ResourceQuota](t, c.quota)})
		if c.want == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, c.want, name)
		}
	}
}
