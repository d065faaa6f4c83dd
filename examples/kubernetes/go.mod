module tenure.example/kubernetes

go 1.18
