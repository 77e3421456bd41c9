-- For Slurm's JobSubmitPlugins=lua: the GPU memory that a job asks of CARMA is counted as gres/carma, in GiB, so that Slurm sends it
-- to a node that has so much. Loaded by /etc/slurm/job_submit.lua with dofile(), or that file itself. docs/server/slurm.md
--
-- What a site may set before:
--   carma_gib_per_gpu   counted for a GPU whose memory nobody has said (carma slurm config prints it)
--   carma_largest_gpu_gib   of all nodes (carma slurm config prints that of its node): --carma-mem beyond it is refused
--   carma_partitions    { shared = true }: there GPUs of Slurm's are refused to all jobs; elsewhere, to those with CARMA's options
--   carma_gres          "gres:carma:" before Slurm 23.11, "gres/carma:" from then on; if not set, slurmctld is asked for its version

carma_gib_per_gpu = carma_gib_per_gpu or 40

-- Once, when slurmctld loads this file. One that was started by root and has become another user cannot run itself, so the one in
-- PATH is asked then.
local function gres_of_this_slurm()
  local asked = io.popen("{ /proc/$PPID/exe -V || slurmctld -V || /usr/sbin/slurmctld -V; } 2>/dev/null")
  local year, month = string.match(asked and asked:read("*l") or "", "(%d+)%.(%d+)")
  if asked then asked:close() end
  local new = year and tonumber(year) * 100 + tonumber(month) >= 2311
  return new and "gres/carma:" or "gres:carma:"
end
carma_gres = carma_gres or gres_of_this_slurm()

local OPTION = "_SLURM_SPANK_OPTION_carma_carma_"
local MIB = { [""] = 1, m = 1, mb = 1, mib = 1, g = 1024, gb = 1024, gib = 1024, t = 1048576, tb = 1048576, tib = 1048576 }

-- The options of the plug-in, by their names without "carma_".
local function options_of(job_desc)
  local found, any = {}, false
  for _, variable in pairs(job_desc.spank_job_env or {}) do
    local name, value = string.match(variable, "^" .. OPTION .. "([%w_]+)=?(.*)$")
    if name then
      found[name] = value
      any = true
    end
  end
  return any and found or nil
end

-- "1536M" as 1.5; nil: no size.
local function exact_gib(text)
  local number, unit = string.match(string.lower(text or ""), "^([%d.]+)(%a*)$")
  number = tonumber(number)
  if not number or not MIB[unit] then return nil end
  return number * MIB[unit] / 1024
end

-- "12G" as GiB, rounded up; nil: no size.
function carma_gib(text)
  local gib = exact_gib(text)
  return gib and math.max(1, math.ceil(gib))
end

-- Nodes count whole GiB, so a GPU may have almost one more.
local function fits_no_gpu(text)
  return carma_largest_gpu_gib and exact_gib(text) >= math.floor(carma_largest_gpu_gib) + 1
end

-- What of gres/carma these options come to on a node. A whole GPU counts as nodes count it: rounded down.
function carma_count(options)
  local each = carma_gib_per_gpu
  if not options.exclusive then each = carma_gib(options.mem) or carma_gib_per_gpu end
  if each == math.floor(carma_gib_per_gpu) + 1 then each = math.floor(carma_gib_per_gpu) end
  return math.floor(each * (tonumber(options.gpus) or 1))
end

-- "gres:gpu:1,gres:carma:20" as what there is besides and 20; nil where nothing is counted.
local function split_count(asked)
  local others, count = {}, nil
  if type(asked) ~= "string" then return others, count end
  for each in string.gmatch(asked, "[^,]+") do
    local name = string.gsub(each, "^gres[:/]", "")
    if string.match(name, "^carma$") or string.match(name, "^carma[:=]") then
      local number, unit = string.match(name, "[:=](%d+)([kKmM]?)$")
      local times = ({ k = 1024, m = 1048576 })[string.lower(unit or "")] or 1
      count = (count or 0) + (tonumber(number) or 1) * times
    else
      table.insert(others, each)
    end
  end
  return others, count
end

local function wants_gpus(job_desc)
  for _, field in ipairs({ "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket", "gres" }) do
    local asked = job_desc[field]
    if type(asked) == "string" and string.find("," .. string.gsub(asked, "gres[:/]", "") .. ",", "[,]gpu[:=,]") then return true end
  end
  return false
end

local function refuse(sentence)
  slurm.log_user("%s", sentence)
  return slurm.ERROR
end

-- Those that the job names ("main,apart"), or else the default one.
local function partitions_of(job_desc, part_list)
  if job_desc.partition then return job_desc.partition end
  for name, partition in pairs(part_list or {}) do
    if partition.flag_default == 1 then return name end
  end
  return ""
end

-- Whether GPUs of Slurm's are refused to all jobs in one of them.
local function is_shared(partitions)
  for name in string.gmatch(partitions or "", "[^,]+") do
    if carma_partitions and carma_partitions[name] then return true end
  end
  return false
end

local function refuse_gpus()
  return refuse("CARMA gives the GPUs here: ask for --carma-mem=SIZE (and --carma-gpus=N, --carma-exclusive) instead of GPUs by --gres or --gpus")
end

-- slurm.SUCCESS, or slurm.ERROR with a sentence told to the user.
function carma_job_submit(job_desc, part_list)
  local options = options_of(job_desc)
  if wants_gpus(job_desc) and (options or is_shared(partitions_of(job_desc, part_list))) then return refuse_gpus() end
  if not options then return slurm.SUCCESS end
  local nodes = job_desc.min_nodes
  if nodes and nodes ~= slurm.NO_VAL and nodes > 1 and not options.exclusive then
    return refuse("CARMA: a job of several nodes cannot share GPUs: use --carma-exclusive, or --nodes=1")
  end
  if options.mem and not carma_gib(options.mem) then return refuse("CARMA: --carma-mem: expected GPU memory such as 12G or 800M") end
  if options.mem and fits_no_gpu(options.mem) then
    return refuse(string.format("CARMA: --carma-mem=%s does not fit on any GPU; the largest has %dG", options.mem,
      math.floor(carma_largest_gpu_gib)))
  end
  -- A person may count more, as for a job that grows; never less than its lease takes.
  local others, counted = split_count(job_desc.tres_per_node)
  table.insert(others, carma_gres .. string.format("%d", math.max(counted or 0, carma_count(options))))
  job_desc.tres_per_node = table.concat(others, ",")
  return slurm.SUCCESS
end

-- By `scontrol update` its owner counts no less than before, and gets no GPUs of Slurm's that submission refuses.
function carma_job_modify(job_desc, job_rec, modify_uid)
  local _, after = split_count(job_desc.tres_per_node)
  local _, before = split_count(job_rec.tres_per_node)
  local had = wants_gpus(job_rec)
  local wants = wants_gpus(job_desc) or (had and job_desc.partition)
  if modify_uid ~= 0 and wants and ((before and not had) or is_shared(job_desc.partition or job_rec.partition)) then return refuse_gpus() end
  if modify_uid ~= 0 and before and type(job_desc.tres_per_node) == "string" and (after or 0) < before then
    return refuse("CARMA: this job counts " .. before .. " GiB of GPU memory (gres/carma): only an administrator may lower that")
  end
  return slurm.SUCCESS
end

if not slurm_job_submit then
  function slurm_job_submit(job_desc, part_list, submit_uid)
    return carma_job_submit(job_desc, part_list)
  end
  function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return carma_job_modify(job_desc, job_rec, modify_uid)
  end
end
