# An image for each program, with nothing in it but that:
#
#   docker build --build-arg PROGRAM=sigma-scheduler -t "$REGISTRY/sigma-scheduler:$TAG" .
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG PROGRAM
# kube-scheduler's code says of what version it is only when told.
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -o /program -ldflags "-s -w \
    -X k8s.io/component-base/version.gitVersion=$(go list -m -f '{{.Replace.Version}}' k8s.io/kubernetes)" \
    "./cmd/$PROGRAM"

FROM scratch
COPY --from=build /program /program
USER 65532:65532
ENTRYPOINT ["/program"]
