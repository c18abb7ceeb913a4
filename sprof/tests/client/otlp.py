"""Reads a request with profiles as OpenTelemetry publishes its messages, generated from its protos. Prints the labels of what ran, and the own
time of each function, in ns.

python otlp.py FILE
"""

import collections
import json
import sys

from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import ExportProfilesServiceRequest

request = ExportProfilesServiceRequest()
request.ParseFromString(open(sys.argv[1], "rb").read())
table = request.dictionary
times = collections.Counter()
labels = {}
for of_resource in request.resource_profiles:
    labels |= {pair.key: pair.value.string_value for pair in of_resource.resource.attributes}
    for profile in (profile for scope in of_resource.scope_profiles for profile in scope.profiles):
        unit = table.string_table[profile.sample_type.unit_strindex]
        for sample in profile.samples:
            leaf = table.location_table[table.stack_table[sample.stack_index].location_indices[0]]
            function = table.function_table[leaf.lines[0].function_index]
            times[table.string_table[function.name_strindex], unit] += sum(sample.values)
print(json.dumps({"labels": labels, "times": [[name, unit, time] for (name, unit), time in sorted(times.items())]}))
