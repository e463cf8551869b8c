package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// noPods are the kinds for which no controller creates pods, by API group: those of Kubernetes (a test
// compares them with client-go's), of Sigma, and of some projects whose documentation confirms it. Any other kind
// may create pods. Not here: Gateway and Mesh of gateway.networking.k8s.io, for which some implementations run
// proxies; Certificate, Order and Challenge of cert-manager, which may run a pod that answers an ACME server;
// policies that generate objects.
var noPods = kindsOf(`
	: Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace PersistentVolume PersistentVolumeClaim PodStatusResult PodTemplate RangeAllocation ResourceQuota Secret Service ServiceAccount
	admissionregistration.k8s.io: MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
	apiextensions.k8s.io: CustomResourceDefinition
	apiregistration.k8s.io: APIService
	apps: ControllerRevision Scale
	authentication.k8s.io: SelfSubjectReview TokenRequest TokenReview
	authorization.k8s.io: LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
	autoscaling: HorizontalPodAutoscaler Scale
	certificates.k8s.io: CertificateSigningRequest ClusterTrustBundle PodCertificateRequest
	coordination.k8s.io: Lease LeaseCandidate
	discovery.k8s.io: EndpointSlice
	events.k8s.io: Event
	extensions: Ingress NetworkPolicy PodSecurityPolicy Scale
	flowcontrol.apiserver.k8s.io: FlowSchema PriorityLevelConfiguration
	internal.apiserver.k8s.io: StorageVersion
	networking.k8s.io: IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR
	node.k8s.io: RuntimeClass
	policy: Eviction PodDisruptionBudget PodSecurityPolicy
	rbac.authorization.k8s.io: ClusterRole ClusterRoleBinding Role RoleBinding
	resource.k8s.io: DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourcePoolStatusRequest ResourceSlice
	scheduling.k8s.io: PodGroup PriorityClass Workload
	storage.k8s.io: CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass
	storagemigration.k8s.io: StorageVersionMigration

	sigma-scheduler.io: PlacementPlan PlacementPolicy PolicyPilot Rebalance
	autoscaling.sigma-scheduler.io: MultidimPodAutoscaler ScalingPolicy
	flow.sigma-scheduler.io: FlowPolicy NodeFlows

	autoscaling.k8s.io: VerticalPodAutoscaler VerticalPodAutoscalerCheckpoint
	cert-manager.io: ClusterIssuer Issuer
	cilium.io: CiliumClusterwideNetworkPolicy CiliumNetworkPolicy
	external-secrets.io: ClusterSecretStore ExternalSecret SecretStore
	gateway.networking.k8s.io: BackendTLSPolicy GRPCRoute GatewayClass HTTPRoute ReferenceGrant TCPRoute TLSRoute UDPRoute
	keda.sh: ClusterTriggerAuthentication ScaledObject TriggerAuthentication
	monitoring.coreos.com: AlertmanagerConfig PodMonitor Probe PrometheusRule ScrapeConfig ServiceMonitor
	networking.istio.io: DestinationRule EnvoyFilter Gateway ProxyConfig ServiceEntry Sidecar VirtualService WorkloadEntry WorkloadGroup
	projectcalico.org: GlobalNetworkPolicy NetworkPolicy
	route.openshift.io: Route
	security.istio.io: AuthorizationPolicy PeerAuthentication RequestAuthentication
	snapshot.storage.k8s.io: VolumeSnapshot VolumeSnapshotClass VolumeSnapshotContent
	telemetry.istio.io: Telemetry
	traefik.io: IngressRoute IngressRouteTCP IngressRouteUDP Middleware MiddlewareTCP ServersTransport TLSOption TLSStore TraefikService
`)

// changes are those of noPods that change the number or the demand of pods, which a plan does not take into account.
var changes = kindsOf(`
	: LimitRange
	admissionregistration.k8s.io: MutatingAdmissionPolicy MutatingWebhookConfiguration
	autoscaling: HorizontalPodAutoscaler
	autoscaling.k8s.io: VerticalPodAutoscaler
	autoscaling.sigma-scheduler.io: MultidimPodAutoscaler
	keda.sh: ScaledObject
	node.k8s.io: RuntimeClass
`)

// typed are the kinds that Sigma has types of: the workloads that it plans, nodes and placement rules.
var typed = kindsOf(`
	: Node Pod ReplicationController
	apps: Deployment ReplicaSet StatefulSet
	batch: Job
	sigma-scheduler.io: PlacementRule
`)

// leftOut are the kinds whose pods are not planned, with the reason.
var leftOut = map[schema.GroupKind]string{
	{Group: "apps", Kind: "DaemonSet"}:       ofNodes,
	{Group: "extensions", Kind: "DaemonSet"}: ofNodes,
	{Group: "batch", Kind: "CronJob"}:        "its pods come by its schedule",
}

const ofNodes = "its pods have their nodes; what it takes there is not planned for"

// ones are the kinds that Sigma has no types of and for which a missing number of replicas, and
// a missing parallelism, is 1: former versions of Kubernetes' own, and some projects'.
var ones = kindsOf(`
	apps: Deployment ReplicaSet StatefulSet
	apps.kruise.io: CloneSet StatefulSet
	argoproj.io: Rollout
	extensions: Deployment ReplicaSet
	jobset.x-k8s.io: JobSet
	kubeflow.org: JAXJob MPIJob PaddleJob PyTorchJob TFJob XGBoostJob
`)

// kindsOf reads lines of a group and its kinds.
func kindsOf(text string) map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for line := range strings.Lines(text) {
		group, names, _ := strings.Cut(strings.TrimSpace(line), ":")
		for kind := range strings.FieldsSeq(names) {
			kinds[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	return kinds
}

// Count is the number of objects of manifests, by their treatment. Each object is in one of its fields.
type Count struct {
	Planned  int            `json:"planned"`   // their pods are in the plan
	Used     int            `json:"used"`      // nodes and placement rules
	NoPods   int            `json:"no_pods"`   // of kinds without pods
	LeftOut  int            `json:"left_out"`  // their pods are not in the plan, with the reason in a note
	NotKnown map[string]int `json:"not_known"` // the number of their pods is unknown, by KIND.GROUP
}

// A tally counts the objects by kind.
type tally struct{ planned, used, noPods, leftOut, notKnown map[schema.GroupKind]int }

func newTally() tally {
	of := func() map[schema.GroupKind]int { return map[schema.GroupKind]int{} }
	return tally{of(), of(), of(), of(), of()}
}

func (t *tally) count() Count {
	sum := func(of map[schema.GroupKind]int) (n int) {
		for _, objects := range of {
			n += objects
		}
		return n
	}
	c := Count{Planned: sum(t.planned), Used: sum(t.used), NoPods: sum(t.noPods), LeftOut: sum(t.leftOut), NotKnown: map[string]int{}}
	for kind, n := range t.notKnown {
		c.NotKnown[kind.String()] = n
	}
	return c
}

// notes returns the numbers, and the kinds without planned pods.
func (t *tally) notes() []string {
	c, unknown := t.count(), 0
	for _, n := range c.NotKnown {
		unknown += n
	}
	notes := []string{fmt.Sprintf("objects of the manifests: %d planned, %d nodes and rules, %d without pods, %d left out, %d not known",
		c.Planned, c.Used, c.NoPods, c.LeftOut, unknown)}
	list := func(what string, of map[schema.GroupKind]int) {
		if len(of) > 0 {
			notes = append(notes, what+": "+byKind(of))
		}
	}
	list("no pods", t.noPods)
	change := maps.Clone(t.noPods)
	maps.DeleteFunc(change, func(kind schema.GroupKind, _ int) bool { return !changes[kind] })
	list("may change the pods that are planned, and are not taken into account", change)
	list("left out", t.leftOut)
	list("not known how many pods they make, if any, and not planned", t.notKnown)
	return notes
}

// byKind lists numbers of objects by kind.
func byKind(of map[schema.GroupKind]int) string {
	var list []string
	for kind, n := range of {
		list = append(list, fmt.Sprintf("%s %d", kind, n))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
