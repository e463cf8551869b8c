package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// The DaemonSet starts the agent as it is, with the two capabilities and nothing more.
func TestDaemonSet(t *testing.T) {
	var set appsv1.DaemonSet
	require.NoError(t, yaml.UnmarshalStrict([]byte(readText(t, "../../manifests/flows/daemonset.yaml")), &set))
	pod := set.Spec.Template.Spec
	require.True(t, pod.HostNetwork)
	require.False(t, *pod.AutomountServiceAccountToken)
	require.Len(t, pod.Containers, 1)
	agent := pod.Containers[0]
	require.Equal(t, &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"BPF", "NET_ADMIN"}}, agent.SecurityContext.Capabilities)
	require.True(t, *agent.SecurityContext.ReadOnlyRootFilesystem)
	require.False(t, *agent.SecurityContext.AllowPrivilegeEscalation)
	require.Nil(t, agent.SecurityContext.Privileged)
	cmd, args, err := command().Find(agent.Args)
	require.NoError(t, err)
	require.Equal(t, "agent", cmd.Name())
	require.NoError(t, cmd.ParseFlags(args))
	require.Equal(t, agent.VolumeMounts[0].MountPath, cmd.Flag("out").Value.String())
}

// The page names every metric and no other, and its commands parse.
func TestPage(t *testing.T) {
	page := readText(t, "../../docs/flows.md")
	described := make(chan *prometheus.Desc, 100)
	(&collector{}).Describe(described)
	newSketches().Describe(described)
	close(described)
	known := map[string]bool{}
	for d := range described {
		name := regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(d.String())[1]
		known[name] = true
		if short, ok := strings.CutPrefix(name, "sigma_flow_port"); ok && short != "_flows_total" {
			name = "…" + short
		}
		require.Contains(t, page, "`"+name, name)
	}
	for _, m := range regexp.MustCompile("`(sigma_flow_[a-z_]+)").FindAllStringSubmatch(page, -1) {
		require.True(t, known[m[1]], m[1])
	}
	commands := regexp.MustCompile(`(?m)^(?:sudo )?\./sigma-flow ([^#\n]*)`).FindAllStringSubmatch(page, -1)
	require.Len(t, commands, 8)
	for _, c := range commands {
		cmd, args, err := command().Find(strings.Fields(c[1]))
		require.NoError(t, err)
		require.NoError(t, cmd.ParseFlags(args), c[1])
	}
	for _, m := range regexp.MustCompile("`--([a-z-]+)[ =`]").FindAllStringSubmatch(page, -1) {
		require.True(t, agentCommand().Flag(m[1]) != nil || onCommand().Flag(m[1]) != nil, m[1])
	}
}
